-- Puts orders of the ledger back into Redis, and counts the units that they hold: in a rebuild all of them after
-- reset.lua (G5), in a sweep those that hold units and that Redis has lost (I2, I3).
--
-- An order is counted once, with the state in its record, so that a later transition of the order finds matching
-- counters.
--
-- KEYS  1 gate, 2 orders (stream), 3 winners, 4 stats, then one order record each
-- ARGV  1 key prefix, 2 TTL of a closed order (seconds), 3 epoch of the orders, 4 rebuild | lost, then for each order:
--       the number of its bit in `winners`, status, live, user, SKU, quantity, amount, currency, created_at, pay_by,
--       paid_at, reason, checkout_url
-- Reply number of orders | -1 (fenced: the gate has another epoch, or is not being rebuilt, or for `lost` is)

local prefix, closed_ttl, epoch = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local gate = redis.call('HMGET', KEYS[1], 'keep_until', 'epoch', 'restoring')
local is_rebuild = ARGV[4] == 'rebuild'
if gate[2] ~= epoch or is_rebuild ~= (gate[3] ~= false) then return { -1 } end
local keep_until = gate[1]
local bits = redis.call('STRLEN', KEYS[3]) * 8
local closed = { cancelled = true, expired = true, failed = true, refunded = true }
for i = 5, #KEYS do
  local base = 4 + (i - 5) * 13
  local function arg(n) return ARGV[base + n] end
  local status, live, user, sku, units = arg(2), arg(3), arg(4), arg(5), arg(6)
  local is_new = redis.call('HGET', KEYS[i], 'epoch') ~= epoch
  -- A record that Redis still has, or has again, may be later than the ledger's row.
  if is_rebuild or (is_new and live == '1') then
    redis.call('HSET', KEYS[i], 'status', status, 'live', live, 'user', user, 'sku', sku, 'quantity', units,
      'amount', arg(7), 'currency', arg(8), 'created_at', arg(9), 'pay_by', arg(10), 'paid_at', arg(11),
      'reason', arg(12), 'sequence', 0, 'ahead', 0, 'wait_ms', 0, 'epoch', epoch, 'checkout_url', arg(13))
    if closed[status] then
      redis.call('EXPIRE', KEYS[i], closed_ttl)
    elseif keep_until then
      redis.call('PEXPIREAT', KEYS[i], keep_until)
    end
  end
  if bits > 0 then redis.call('SETBIT', KEYS[3], arg(1) % bits, 1) end
  if is_new and live == '1' then
    redis.call('HINCRBY', prefix .. 'holders:' .. sku, user, units)
    if status == 'pending_payment' then
      redis.call('HINCRBY', KEYS[4], 'held:' .. sku, units)
      redis.call('HINCRBY', KEYS[4], 'pending:' .. sku, units)
    else
      redis.call('HINCRBY', KEYS[4], 'sold:' .. sku, units)
    end
    -- A rebuild sets the stock at its end (finish.lua).
    if not is_rebuild then
      local stock, left, expected_left = read_stock(prefix, sku)
      if stock then set_stock(stock, math.max(0, math.min(left, expected_left))) end
    end
  end
end
return { #KEYS - 4 }
