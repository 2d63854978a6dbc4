-- A function that reads an order record, prepended to every script that shows orders. Not a script of its own.

-- Reads one order and its place in the queue (D5, D7). Returns status, user, sku, quantity, amount, currency, created_at,
-- pay_by, paid_at, reason, checkout_url, declined_at, ahead, wait (ms); the status is false if there is no such order.
local function read_order(key, stats_key)
  local order = redis.call('HMGET', key, 'status', 'user', 'sku', 'quantity', 'amount', 'currency', 'created_at',
    'pay_by', 'paid_at', 'reason', 'checkout_url', 'declined_at', 'sequence')
  local ahead, wait_ms = 0, 0
  if order[1] == 'queued' then
    local queue = redis.call('HMGET', stats_key, 'written', 'rate')
    ahead = math.max(0, tonumber(order[13]) - 1 - tonumber(queue[1] or 0))
    wait_ms = math.ceil(ahead * 1000 / math.max(1, tonumber(queue[2] or 5000)))
  end
  order[13] = ahead
  order[14] = wait_ms
  return order
end
