-- Counts a visitor who wants to be reminded of the start (G2).
--
-- KEYS  1 gate, 2 reminders (HyperLogLog)
-- ARGV  1 visitor
-- Reply counted | known (counted before, or there is no gate)

local keep_until = redis.call('HGET', KEYS[1], 'keep_until')
if not keep_until or redis.call('PFADD', KEYS[2], ARGV[1]) == 0 then return { 'known' } end
redis.call('PEXPIREAT', KEYS[2], keep_until)
return { 'counted' }
