-- Takes the units of a released order again for a payment that came late (E5), if they are free and the buyer may.
--
-- KEYS  1 gate, 2 order, 3 stock, 4 holders, 5 stats
-- ARGV  1 paid_at (ms), 2 SKU, 3 quantity, 4 user
-- Reply taken (also when it was taken before), gone (no unit, no room for this buyer, or no record to take it for),
--       later (the sale is being rebuilt: nobody can say)

if redis.call('HEXISTS', KEYS[1], 'restoring') == 1 then return { 'later' } end
local known = redis.call('HMGET', KEYS[2], 'status', 'live')
if known[1] == 'paid' then return { 'taken' } end
if known[1] ~= 'expired' and known[1] ~= 'cancelled' then return { 'gone' } end
local sku, quantity, user = ARGV[2], tonumber(ARGV[3]), ARGV[4]
local left = tonumber(redis.call('GET', KEYS[3]))
local gate = redis.call('HMGET', KEYS[1], 'per_user', 'keep_until')
local holds = tonumber(redis.call('HGET', KEYS[4], user) or 0)
if not left or (left >= 0 and left < quantity) or holds + quantity > tonumber(gate[1] or 0) then return { 'gone' } end
if left >= 0 then redis.call('DECRBY', KEYS[3], quantity) end
redis.call('HINCRBY', KEYS[4], user, quantity)
redis.call('HINCRBY', KEYS[5], 'sold:' .. sku, quantity)
redis.call('HSET', KEYS[2], 'status', 'paid', 'live', '1', 'paid_at', ARGV[1], 'reason', '')
redis.call('PERSIST', KEYS[2])
if gate[2] then redis.call('PEXPIREAT', KEYS[2], gate[2]) end
return { 'taken' }
