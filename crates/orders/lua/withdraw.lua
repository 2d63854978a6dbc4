-- Takes back an offer that the ledger has no room for: its buyer waits again, at the same place (H1). The gate is stopped,
-- because Redis has lost the order that holds the unit (G16): nothing is offered until a rebuild has compared the stores.
--
-- KEYS  1 gate, 2 orders (stream), 3 stats, 4 queued, 5 holders, 6 entries, 7 line of the SKU
-- ARGV  1 JSON: group (of the stream), ulid, user, sku, stream_id
-- Reply done

local options = cjson.decode(ARGV[1])
local user, sku, ulid = options.user, options.sku, options.ulid
local order = read_queued(KEYS[4], ulid)
local list = read_entries(KEYS[6], user)
local entry = find_entry(list, ulid)
if order and order.message == options.stream_id and entry then
  redis.call('HDEL', KEYS[4], ulid)
  if redis.call('HINCRBY', KEYS[5], sku .. ':' .. user, -1) <= 0 then redis.call('HDEL', KEYS[5], sku .. ':' .. user) end
  redis.call('HINCRBY', KEYS[3], 'held:' .. sku, -1)
  local later = find_waiting(list, sku)
  if later then later.state, later.ended_at = 'left_line', to_text(read_time()) end
  entry.state = 'waiting'
  write_entries(KEYS[6], user, list, read_time())
  enter_line(KEYS[7], KEYS[3], user, entry)
end
redis.call('XACK', KEYS[2], options.group, options.stream_id)
redis.call('HINCRBY', KEYS[3], 'written', redis.call('XDEL', KEYS[2], options.stream_id))
return { 'done' }
