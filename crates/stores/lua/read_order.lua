-- A function that reads an order, prepended to every script that shows orders. Not a script of its own.

-- Reads one order and its place in the queue (D5, D7). Returns status, user, sku, quantity, amount, currency, created_at,
-- pay_by, paid_at, reason, checkout_url, declined_at, refunded, ahead, wait (ms); the status is false if there is no such order.
local function read_order(queued, stats, key)
  local order = read_queued(queued, string.sub(key, -26))
  if not order then
    local record = redis.call('HMGET', key, 'status', 'user', 'sku', 'quantity', 'amount', 'currency', 'created',
      'pay_by', 'paid_at', 'reason', 'checkout_url', 'declined_at', 'refunded')
    record[13], record[14], record[15] = record[13] or 0, 0, 0
    return record
  end
  local queue = redis.call('HMGET', stats, 'written', 'rate')
  local ahead = math.max(0, order.sequence - 1 - (queue[1] or 0))
  local wait_ms = math.ceil(ahead * 1000 / math.max(1, tonumber(queue[2] or 5000)))
  return { order.status, order.user, order.sku, order.quantity, order.amount, order.currency, order.created_at,
    0, 0, '', '', 0, 0, ahead, wait_ms }
end
