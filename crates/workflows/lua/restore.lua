-- Puts orders of the ledger back into Redis, and counts the units that they hold: in a rebuild a page of all of them
-- after reset.lua (G5), in a sweep those that Redis has lost (I2, I3, I7).
--
-- In a rebuild the gate remembers the last order of the page, in the same step. So a page counts once, also if two
-- requests restore it, or one repeats the call; and the next request continues where this one ends. An order is counted
-- with the state in its record, so that a later transition of the order finds matching counters.
--
-- KEYS  1 gate, 2 orders (stream), 3 winners, 4 stats, 5 index, then one order record each
-- ARGV  1 key prefix, 2 TTL of a closed order (seconds), 3 epoch of the orders, 4 rebuild | lost, 5 number of the order
--       after which the page begins ("" for the first page; unused for `lost`), 6 number of the last order, then for
--       each order: the number of its bit in `winners`, status, live, user, SKU, quantity, amount, currency, created_at,
--       pay_by, paid_at, reason, checkout_url
-- Reply word: restored | elsewhere (another request restored this page: nothing was changed) | done (the rebuild has
--       ended) | fenced (the gate has another epoch, or for `lost` is being rebuilt); then number of the last order
--       restored, orders restored in all

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local prefix, closed_ttl, epoch, is_rebuild = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4] == 'rebuild'
local gate = redis.call('HMGET', KEYS[1], 'keep_until', 'epoch', 'restoring', 'restored_after', 'restored')
local keep_until, restoring, restored_before = gate[1], gate[3], tonumber(gate[5] or 0)
if gate[2] ~= epoch or (restoring and not is_rebuild) then return { 'fenced', '', 0 } end
if is_rebuild and not restoring then return { 'done', '', restored_before } end
if is_rebuild and gate[4] ~= ARGV[5] then return { 'elsewhere', gate[4], restored_before } end
local closed = { cancelled = true, expired = true, failed = true, refunded = true }
local bits, ulids = redis.call('STRLEN', KEYS[3]) * 8, {}
for i = 6, #KEYS do
  local base = 6 + (i - 6) * 13
  local function arg(n) return ARGV[base + n] end
  local status, live, user, sku, units = arg(2), arg(3), arg(4), arg(5), arg(6)
  if bits > 0 then redis.call('SETBIT', KEYS[3], arg(1) % bits, 1) end
  -- A record that Redis still has, or has again, may be later than the ledger's row that the sweeper read.
  if is_rebuild or redis.call('HGET', KEYS[i], 'epoch') ~= epoch then
    redis.call('HSET', KEYS[i], 'status', status, 'live', live, 'user', user, 'sku', sku, 'quantity', units,
      'amount', arg(7), 'currency', arg(8), 'created_at', arg(9), 'pay_by', arg(10), 'paid_at', arg(11),
      'reason', arg(12), 'sequence', 0, 'ahead', 0, 'wait_ms', 0, 'epoch', epoch, 'checkout_url', arg(13),
      'settled_at', now)
    if closed[status] and live ~= '1' then
      redis.call('EXPIRE', KEYS[i], closed_ttl)
    elseif keep_until then
      redis.call('PEXPIREAT', KEYS[i], keep_until)
    end
    ulids[#ulids + 1] = string.sub(KEYS[i], -26)
    if live == '1' then
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
end
if ulids[1] then
  redis.call('APPEND', KEYS[5], table.concat(ulids))
  if keep_until then redis.call('PEXPIREAT', KEYS[5], keep_until) end
end
if not is_rebuild then return { 'restored', '', #KEYS - 5 } end
local restored = restored_before + #KEYS - 5
redis.call('HSET', KEYS[1], 'restored_after', ARGV[6], 'restored', restored)
return { 'restored', ARGV[6], restored }
