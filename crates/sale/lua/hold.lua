-- Notes that a payment was started: where to pay, and until when (E1, E6).
--
-- KEYS  1 order
-- ARGV  1 checkout URL, 2 pay_by (ms)
-- Reply moved, stale (the order is not waiting for money)

if redis.call('HGET', KEYS[1], 'status') ~= 'pending_payment' then return { 'stale' } end
redis.call('HSET', KEYS[1], 'checkout_url', ARGV[1], 'pay_by', ARGV[2])
return { 'moved' }
