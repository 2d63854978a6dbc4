-- Notes that a payment was started: where to pay, and until when (E1, E6).
--
-- KEYS  1 order, 2 due
-- ARGV  1 ULID, 2 checkout URL, 3 pay_by (ms)
-- Reply moved, stale (the order is not waiting for money)

if redis.call('HGET', KEYS[1], 'status') ~= 'pending_payment' then return { 'stale' } end
redis.call('HSET', KEYS[1], 'checkout_url', ARGV[2], 'pay_by', ARGV[3])
redis.call('ZADD', KEYS[2], 'XX', ARGV[3], ARGV[1])
return { 'moved' }
