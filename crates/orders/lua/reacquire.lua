-- Reacquires the units of a released order for a late payment (E5), if they are free and the buyer's limit allows it.
--
-- KEYS  1 gate, 2 order, 3 stats, 4 holders, 5 index, 6 queued
-- ARGV  1 JSON: paid_at (ms), ledger_status, order {user, sku, quantity, amount, currency, created_at (ms)}
-- Reply taken (also if it was reacquired before) | gone (too few units left, stock not loaded, the buyer's limit is
--       reached, or the order is neither cancelled nor expired) | later (the order is queued again, or the activity is being
--       rebuilt: retry)

local unfinished = redis.call('HMGET', KEYS[1], 'restoring', 'stopped')
if unfinished[1] or unfinished[2] or redis.call('HEXISTS', KEYS[6], string.sub(KEYS[2], -26)) == 1 then
  return { 'later' }
end
local options = cjson.decode(ARGV[1])
local record = redis.call('HMGET', KEYS[2], 'status', 'pay_by')
if record[1] == 'paid' then return { 'taken' } end
-- Redis keeps the record of a released order for an hour only, but a payment may arrive days later.
local status = record[1] or options.ledger_status
if status ~= 'expired' and status ~= 'cancelled' then return { 'gone' } end
local order = options.order
local sku, quantity, holder = order.sku, order.quantity, order.sku .. ':' .. order.user
local left = tonumber(redis.call('HGET', KEYS[3], 'left:' .. sku))
local gate = redis.call('HMGET', KEYS[1], 'per_user', 'keep_until', 'epoch', 'state', 'ends_at')
local is_over = gate[4] == 'closed' or read_time() >= tonumber(gate[5] or 0)
-- What came back belongs to the line (I8), which ends with the sale.
if not is_over and tonumber(redis.call('HGET', KEYS[3], 'waiting:' .. sku) or 0) > 0 then left = 0 end
local live_by_user = tonumber(redis.call('HGET', KEYS[4], holder) or 0)
if not left or (left >= 0 and left < quantity) or live_by_user + quantity > tonumber(gate[1] or 0) then
  return { 'gone' }
end
if left >= 0 then redis.call('HINCRBY', KEYS[3], 'left:' .. sku, -quantity) end
if not record[1] then
  order.epoch = gate[3]
  write_order(KEYS[2], order)
  redis.call('APPEND', KEYS[5], string.sub(KEYS[2], -26))
  if gate[2] then redis.call('PEXPIREAT', KEYS[5], gate[2]) end
end
redis.call('HINCRBY', KEYS[4], holder, quantity)
redis.call('HINCRBY', KEYS[3], 'sold:' .. sku, quantity)
local now = read_time()
-- Without a time to keep it, the record does not expire.
redis.call('PERSIST', KEYS[2])
local state = { status = 'paid', live = true, pay_by = record[2] or 0, paid_at = options.paid_at, reason = '' }
write_state(KEYS[2], state, now, nil, gate[2])
return { 'taken' }
