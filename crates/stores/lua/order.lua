-- Functions that write order records, prepended to every script that writes one. Not a script of its own.
--
-- A record has the fields that these functions write, those of its payments (set_session.lua, decline.lua), and `requeued_at`
-- (requeue.lua). `live` is "1" if the order holds units. `sequence`, `ahead` and `wait_ms` are what a repeat of the reservation answers.

-- Writes the fields that stay the same until the order is queued again, and its status.
local function write_order(key, order)
  redis.call('HSET', key, 'status', order.status, 'user', order.user, 'sku', order.sku, 'quantity', order.quantity,
    'amount', order.amount, 'currency', order.currency, 'created_at', order.created_at, 'epoch', order.epoch,
    'sequence', order.sequence or 0, 'ahead', order.ahead or 0, 'wait_ms', order.wait_ms or 0)
end

-- Writes the state of an order that has left the queue. The record of a closed order that holds no units expires after
-- `closed_ttl` seconds, any other at `keep_until` (ms).
local function write_state(key, state, now, closed_ttl, keep_until)
  local status, live = state.status, state.live and '1' or '0'
  redis.call('HSET', key, 'status', status, 'live', live, 'pay_by', state.pay_by, 'synced_at', now)
  -- An order that waits for payment has no payment and no reason.
  if status ~= 'pending_payment' then redis.call('HSET', key, 'paid_at', state.paid_at, 'reason', state.reason) end
  local is_closed = status == 'cancelled' or status == 'expired' or status == 'failed' or status == 'refunded'
  if is_closed and not state.live then
    redis.call('EXPIRE', key, closed_ttl)
  elseif keep_until then
    redis.call('PEXPIREAT', key, keep_until)
  end
end
