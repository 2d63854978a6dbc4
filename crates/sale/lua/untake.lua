-- Gives back what retake.lua took, because the ledger would not have it: the order becomes refunding without units.
--
-- KEYS  1 gate, 2 order, 3 stock, 4 holders, 5 stats
-- ARGV  1 SKU, 2 quantity, 3 user, 4 reason
-- Reply moved, same

local known = redis.call('HMGET', KEYS[2], 'status', 'live')
if known[1] ~= 'paid' or known[2] ~= '1' then return { 'same' } end
local sku, quantity, user = ARGV[1], tonumber(ARGV[2]), ARGV[3]
if tonumber(redis.call('GET', KEYS[3]) or -1) >= 0 then redis.call('INCRBY', KEYS[3], quantity) end
if redis.call('HINCRBY', KEYS[4], user, -quantity) <= 0 then redis.call('HDEL', KEYS[4], user) end
redis.call('HINCRBY', KEYS[5], 'sold:' .. sku, -quantity)
redis.call('HSET', KEYS[2], 'status', 'refunding', 'live', '0', 'reason', ARGV[4])
return { 'moved' }
