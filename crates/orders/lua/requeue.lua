-- Puts a failed order back into the queue (D4), if its units are free and the buyer's limit allows it. One that was offered
-- to the line waits there again, at its place (H1; I9), until the line ends.
--
-- KEYS  1 gate, 2 order, 3 stats, 4 holders, 5 orders (stream), 6 queued, 7 entries, 8 line of the SKU
-- ARGV  1 JSON: message and reason (of the dead letter), order {user, sku, quantity, amount, currency, created_at (ms)},
--       place (epoch and sequence, of one that was offered)
-- Reply queued | joined (also if it waits since before) | requeued (it was queued or written since it became this dead letter)
--       | same (it is about to fail) | not_ready | limit_reached | sold_out

local ulid = string.sub(KEYS[2], -26)
local queued = redis.call('HGET', KEYS[6], ulid)
local options, now = cjson.decode(ARGV[1]), read_time()
if queued and string.match(queued, ' (.*)$') == options.message then return { 'same' } end
local order = options.order
local list = read_entries(KEYS[7], order.user)
local entry = find_entry(list, ulid)
if entry and entry.state == 'waiting' then return { 'joined' } end
if entry and entry.state == options.reason then
  -- Its failure, as a rebuild restores it.
  entry.ended_at = '0'
  entry = nil
end
local status = redis.call('HGET', KEYS[2], 'status')
if queued or entry or (status and status ~= 'failed') then return { 'requeued' } end
local sku, quantity, holder = order.sku, order.quantity, order.sku .. ':' .. order.user
local gate = redis.call('HMGET', KEYS[1], 'per_user', 'epoch', 'state', 'ends_at', 'line:' .. sku)
local is_over = gate[3] == 'closed' or now >= tonumber(gate[4] or 0)
local per_user = tonumber(gate[1])
local left = tonumber(redis.call('HGET', KEYS[3], 'left:' .. sku))
if not per_user or not gate[2] or not left then return { 'not_ready' } end
if tonumber(redis.call('HGET', KEYS[4], holder) or 0) + quantity > per_user then return { 'limit_reached' } end
local sequence = tonumber(redis.call('HGET', KEYS[3], 'enqueued') or 0) + 1
if options.place and gate[5] and not is_over then
  if find_waiting(list, sku) then return { 'limit_reached' } end
  -- The ledger may still think that a later entry of this buyer waits.
  for _, other in ipairs(list) do
    if other.sku == sku and redis.call('HEXISTS', KEYS[6], other.ulid) == 1 then return { 'limit_reached' } end
  end
  local epoch, place = string.match(options.place, '(%d+) (%d+)')
  entry = { ulid = ulid, sku = sku, amount = to_text(order.amount), currency = order.currency,
    created_at = to_text(order.created_at), epoch = epoch, sequence = place, state = 'waiting', ended_at = '' }
  send_entry(KEYS[6], KEYS[5], order.user, entry, 'again', gate[2], to_text(sequence))
  list[#list + 1] = entry
  write_entries(KEYS[7], order.user, list, now)
  enter_line(KEYS[8], KEYS[3], order.user, entry)
  redis.call('DEL', KEYS[2])
  redis.call('HSET', KEYS[3], 'enqueued', to_text(sequence))
  return { 'joined' }
end
-- What came back belongs to the line (I8), which ends with the sale.
if not is_over and tonumber(redis.call('HGET', KEYS[3], 'waiting:' .. sku) or 0) > 0 then return { 'sold_out' } end
if left >= 0 and left < quantity then return { 'sold_out' } end
write_entries(KEYS[7], order.user, list, now)
queue_order(KEYS[6], KEYS[5], ulid, order.user, sku, quantity, to_text(order.amount), order.currency,
  to_text(order.created_at), gate[2], to_text(sequence), '0', '0')
redis.call('DEL', KEYS[2])
redis.call('HINCRBY', KEYS[4], holder, quantity)
redis.call('HINCRBY', KEYS[3], 'held:' .. sku, quantity)
redis.call('HSET', KEYS[3], 'enqueued', to_text(sequence), 'left:' .. sku, to_text(left < 0 and -1 or left - quantity))
return { 'queued' }
