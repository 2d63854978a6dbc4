-- Notes that a payment was started: where to pay, and until when (E1, E6); or that its session ended, and nobody can pay
-- there any more. What is older than what is known changes nothing: the two may come in any order.
--
-- KEYS  1 order
-- ARGV  1 checkout URL ("" where the session ended), 2 pay_by (ms; "" to leave it), 3 how far the order's sessions have
--       come: grows with each that opens or ends
-- Reply moved, stale (the order is not waiting for money, or its sessions have come further)

local order = redis.call('HMGET', KEYS[1], 'status', 'sessions')
if order[1] ~= 'pending_payment' or tonumber(order[2] or 0) > tonumber(ARGV[3]) then return { 'stale' } end
redis.call('HSET', KEYS[1], 'checkout_url', ARGV[1], 'sessions', ARGV[3])
if ARGV[2] ~= '' then redis.call('HSET', KEYS[1], 'pay_by', ARGV[2]) end
return { 'moved' }
