-- Offers units that came back to those who wait longest, each as a queued order (H1; I8, I9).
--
-- The caller has just read the head of the line. An entry that may not have a unit any more ends, and the next is served.
--
-- KEYS  1 gate, 2 stats, 3 queued, 4 orders (stream), 5 holders, 6 entries, 7 line of the SKU, then the ban of each user
-- ARGV  1 JSON: sku, users (the head of the line)
-- Reply offered, orders made, entries ended, units left, entries that still wait | changed (the head is another one: read it
--       again) | closed (nothing is offered: the sale is not open)

local options = cjson.decode(ARGV[1])
local sku, users = options.sku, options.users
local stats, queued, stream, holders, entries, line = KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local now = read_time()
local gate = redis.call('HMGET', KEYS[1], 'state', 'ends_at', 'restoring', 'stopped', 'per_user', 'epoch', 'offer_ms')
if gate[1] ~= 'published' or now >= tonumber(gate[2]) or gate[3] or gate[4] then return { 'closed' } end
local head = redis.call('ZRANGE', line, '0', to_text(#users - 1))
for i, user in ipairs(users) do
  if head[i] ~= user then return { 'changed' } end
end
local counters = redis.call('HMGET', stats, 'left:' .. sku, 'enqueued', 'held:' .. sku)
local left, sequence, held = tonumber(counters[1] or 0), tonumber(counters[2] or 0), tonumber(counters[3] or 0)
local offered, ended = 0, 0
for i, user in ipairs(users) do
  if left <= 0 then break end
  local list = read_entries(entries, user)
  local entry, holder = find_waiting(list, sku), sku .. ':' .. user
  local reason
  if redis.call('EXISTS', KEYS[7 + i]) == 1 then
    reason = 'banned'
  elseif tonumber(redis.call('HGET', holders, holder) or 0) + 1 > tonumber(gate[5]) then
    reason = 'limit_reached'
  end
  if entry then sequence = sequence + 1 end
  if not entry then
    -- A user in the set without an entry that waits only leaves the set.
    entry = { sku = sku }
  elseif reason then
    send_entry(queued, stream, user, entry, reason, entry.epoch, entry.sequence)
    entry.state, entry.ended_at = reason, to_text(now)
    ended = ended + 1
  else
    send_entry(queued, stream, user, entry, 'offer:' .. gate[7], gate[6], to_text(sequence))
    entry.state = 'offered'
    redis.call('HINCRBY', holders, holder, 1)
    left, held, offered = left - 1, held + 1, offered + 1
  end
  leave_line(line, stats, user, entry)
  write_entries(entries, user, list, now)
end
redis.call('HSET', stats, 'left:' .. sku, to_text(left), 'held:' .. sku, to_text(held), 'enqueued', to_text(sequence))
if offered + ended > 0 then ring(KEYS[1], stats, now) end
return { 'offered', offered, ended, left, redis.call('ZCARD', line) }
