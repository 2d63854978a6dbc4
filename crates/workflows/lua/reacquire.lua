-- Reacquires the units of a released order for a late payment (E5), if they are free and the buyer's limit allows it.
--
-- KEYS  1 gate, 2 order, 3 stock, 4 holders, 5 stats, 6 winners, 7 index
-- ARGV  1 paid_at (ms), 2 SKU, 3 quantity, 4 user, 5 amount, 6 currency, 7 created_at (ms), 8 status in the ledger,
--       9 number of the ticket's bit in `winners`
-- Reply taken (also if it was reacquired before) | gone (too few units left, stock not loaded, the buyer's limit is
--       reached, or the order is neither cancelled nor expired) | later (the activity is being rebuilt: retry)

if redis.call('HEXISTS', KEYS[1], 'restoring') == 1 then return { 'later' } end
local order = redis.call('HMGET', KEYS[2], 'status', 'live')
if order[1] == 'paid' then return { 'taken' } end
-- Redis keeps the record of a released order for an hour only, but a payment may arrive days later.
local status = order[1] or ARGV[8]
if status ~= 'expired' and status ~= 'cancelled' then return { 'gone' } end
local sku, quantity, user = ARGV[2], tonumber(ARGV[3]), ARGV[4]
local left = tonumber(redis.call('GET', KEYS[3]))
local gate = redis.call('HMGET', KEYS[1], 'per_user', 'keep_until', 'epoch')
local live_by_user = tonumber(redis.call('HGET', KEYS[4], user) or 0)
if not left or (left >= 0 and left < quantity) or live_by_user + quantity > tonumber(gate[1] or 0) then
  return { 'gone' }
end
if left >= 0 then redis.call('DECRBY', KEYS[3], quantity) end
if not order[1] then
  redis.call('HSET', KEYS[2], 'user', user, 'sku', sku, 'quantity', quantity, 'amount', ARGV[5], 'currency', ARGV[6],
    'created_at', ARGV[7], 'sequence', 0, 'ahead', 0, 'wait_ms', 0, 'pay_by', 0, 'epoch', gate[3])
  local bits = redis.call('STRLEN', KEYS[6]) * 8
  if bits > 0 then redis.call('SETBIT', KEYS[6], ARGV[9] % bits, 1) end
  redis.call('APPEND', KEYS[7], string.sub(KEYS[2], -26))
  if gate[2] then redis.call('PEXPIREAT', KEYS[7], gate[2]) end
end
redis.call('HINCRBY', KEYS[4], user, quantity)
redis.call('HINCRBY', KEYS[5], 'sold:' .. sku, quantity)
local time = redis.call('TIME')
redis.call('HSET', KEYS[2], 'status', 'paid', 'live', '1', 'paid_at', ARGV[1], 'reason', '', 'settled_at',
  time[1] * 1000 + math.floor(time[2] / 1000))
redis.call('PERSIST', KEYS[2])
if gate[2] then redis.call('PEXPIREAT', KEYS[2], gate[2]) end
return { 'taken' }
