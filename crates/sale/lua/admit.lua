-- Uses a human check up, and counts who holds a ticket (B5). A check counts once, however it was answered.
--
-- KEYS  1 gate, 2 seekers (HyperLogLog), 3 abuse of the user, 4 ban of the user, 5 the check,
--       6 stats
-- ARGV  1 user, 2 passed, failed or none, 3 ms until the check expires (0 for none)
-- Reply admitted | failed (answered wrongly, or used before)

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ttl = tonumber(ARGV[3])
local fresh = ttl > 0 and redis.call('SET', KEYS[5], ARGV[2], 'NX', 'PX', ttl)
if ARGV[2] == 'failed' or ARGV[2] == 'passed' and not fresh then
  -- One wrong answer is as bad as ten requests too many: guessing a picture must not pay.
  abuse(USER_ABUSE, KEYS[3], KEYS[4], 10, now)
  redis.call('HINCRBY', KEYS[6], 'refused:human_check_failed', 1)
  return { 'failed' }
end
if redis.call('PFADD', KEYS[2], ARGV[1]) == 1 then
  local keep_until = redis.call('HGET', KEYS[1], 'keep_until')
  if keep_until then redis.call('PEXPIREAT', KEYS[2], keep_until) end
end
return { 'admitted' }
