-- Reads one order and its place in the queue (D5, D7).
--
-- KEYS  1 order, 2 stats
-- Reply now (ms), then status, user, sku, quantity, amount, currency, created_at, pay_by, paid_at, reason,
--       checkout_url, ahead, wait (ms); only now if there is no such order

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local order = redis.call('HMGET', KEYS[1], 'status', 'user', 'sku', 'quantity', 'amount', 'currency', 'created_at',
  'pay_by', 'paid_at', 'reason', 'checkout_url', 'sequence')
if not order[1] then return { now } end
local ahead, wait_ms = 0, 0
if order[1] == 'queued' then
  local queue = redis.call('HMGET', KEYS[2], 'written', 'rate')
  ahead = math.max(0, tonumber(order[12]) - 1 - tonumber(queue[1] or 0))
  wait_ms = math.ceil(ahead * 1000 / math.max(1, tonumber(queue[2] or 5000)))
end
order[12] = ahead
order[13] = wait_ms
table.insert(order, 1, now)
return order
