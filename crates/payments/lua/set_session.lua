-- Stores an order's payment session: its URL and the payment deadline (E1, E6); or clears the URL of a session that
-- ended. The two may arrive in any order: an older change than the stored one is ignored.
--
-- KEYS  1 order
-- ARGV  1 checkout URL ("" if the session ended), 2 pay_by (ms; "" keeps it), 3 version of the order's sessions, which
--       grows when one opens or ends
-- Reply moved | stale (the order does not wait for payment, or a later version is stored)

local order = redis.call('HMGET', KEYS[1], 'status', 'sessions')
if order[1] ~= 'pending_payment' or tonumber(order[2] or 0) > tonumber(ARGV[3]) then return { 'stale' } end
redis.call('HSET', KEYS[1], 'checkout_url', ARGV[1], 'sessions', ARGV[3], 'synced', to_text(read_time()))
if ARGV[2] ~= '' then redis.call('HSET', KEYS[1], 'pay_by', ARGV[2]) end
return { 'moved' }
