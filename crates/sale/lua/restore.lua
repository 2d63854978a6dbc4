-- Puts orders back into Redis as the ledger has them, after forget.lua forgot the rest of the sale (G5).
--
-- KEYS  1 gate, 2 due, 3 winners, then one order record for each
-- ARGV  1 key prefix, 2 seconds that a closed order is kept, then for each order: ULID, the ULID's last four bytes,
--       status, live, user, SKU, quantity, amount, currency, created_at, pay_by, paid_at, reason, checkout_url
-- Reply how many were put back

local prefix, keep = ARGV[1], tonumber(ARGV[2])
local keep_until = redis.call('HGET', KEYS[1], 'keep_until')
local closed = { cancelled = true, expired = true, failed = true, refunded = true }
local restored = 0
for at = 4, #KEYS do
  local base = 2 + (at - 4) * 14
  local function arg(n) return ARGV[base + n] end
  restored = restored + 1
  redis.call('HSET', KEYS[at], 'status', arg(3), 'live', arg(4), 'user', arg(5), 'sku', arg(6), 'quantity', arg(7),
    'amount', arg(8), 'currency', arg(9), 'created_at', arg(10), 'pay_by', arg(11), 'paid_at', arg(12),
    'reason', arg(13), 'checkout_url', arg(14), 'sequence', 0, 'ahead', 0, 'wait_ms', 0)
  redis.call('APPEND', KEYS[3], arg(2))
  if arg(4) == '1' then redis.call('HINCRBY', prefix .. 'holders:' .. arg(6), arg(5), arg(7)) end
  if arg(3) == 'pending_payment' then redis.call('ZADD', KEYS[2], arg(11), arg(1)) end
  if closed[arg(3)] then
    redis.call('EXPIRE', KEYS[at], keep)
  elseif keep_until then
    redis.call('PEXPIREAT', KEYS[at], keep_until)
  end
end
return { restored }
