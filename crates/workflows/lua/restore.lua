-- Puts orders of the ledger back into Redis after reset.lua, and counts the units that they hold (G5).
--
-- An order is counted once, with the state in its record, so that a later transition of the order finds matching
-- counters.
--
-- KEYS  1 gate, 2 stats, 3 winners, then one order record each
-- ARGV  1 key prefix, 2 TTL of a closed order (seconds), 3 epoch of this rebuild, then for each order: the last four
--       bytes of its ULID, status, live, user, SKU, quantity, amount, currency, created_at, pay_by, paid_at, reason,
--       checkout_url
-- Reply number of orders | -1 (fenced: a later rebuild has started)

local prefix, closed_ttl, epoch = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local gate = redis.call('HMGET', KEYS[1], 'keep_until', 'epoch', 'restoring')
if gate[2] ~= epoch or not gate[3] then return { -1 } end
local keep_until = gate[1]
local closed = { cancelled = true, expired = true, failed = true, refunded = true }
for i = 4, #KEYS do
  local base = 3 + (i - 4) * 13
  local function arg(n) return ARGV[base + n] end
  local status, live, user, sku, units = arg(2), arg(3), arg(4), arg(5), arg(6)
  local is_new = redis.call('HGET', KEYS[i], 'epoch') ~= epoch
  redis.call('HSET', KEYS[i], 'status', status, 'live', live, 'user', user, 'sku', sku, 'quantity', units,
    'amount', arg(7), 'currency', arg(8), 'created_at', arg(9), 'pay_by', arg(10), 'paid_at', arg(11),
    'reason', arg(12), 'sequence', 0, 'ahead', 0, 'wait_ms', 0, 'epoch', epoch, 'checkout_url', arg(13))
  if is_new then redis.call('APPEND', KEYS[3], arg(1)) end
  if is_new and live == '1' then
    redis.call('HINCRBY', prefix .. 'holders:' .. sku, user, units)
    if status == 'pending_payment' then
      redis.call('HINCRBY', KEYS[2], 'held:' .. sku, units)
      redis.call('HINCRBY', KEYS[2], 'pending:' .. sku, units)
    else
      redis.call('HINCRBY', KEYS[2], 'sold:' .. sku, units)
    end
  end
  if closed[status] then
    redis.call('EXPIRE', KEYS[i], closed_ttl)
  elseif keep_until then
    redis.call('PEXPIREAT', KEYS[i], keep_until)
  end
end
return { #KEYS - 3 }
