-- Notes that a payment of an order was declined, to tell its buyer. The ledger has the callback.
--
-- KEYS  1 order
-- ARGV  1 when (ms)
-- Reply moved | stale (the order does not wait for payment)

if redis.call('HGET', KEYS[1], 'status') ~= 'pending_payment' then return { 'stale' } end
redis.call('HSET', KEYS[1], 'declined_at', ARGV[1])
return { 'moved' }
