-- Marks a human check as used (B5). A check counts once, whether it was answered correctly or not.
--
-- KEYS  1 abuse of the user, 2 ban of the user, 3 the check, 4 stats
-- ARGV  1 passed or failed, 2 ms until the check expires (0 if this application did not issue it)
-- Reply admitted | failed (answered wrongly, or used before)

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ttl_ms = tonumber(ARGV[2])
local first_use = ttl_ms > 0 and redis.call('SET', KEYS[3], ARGV[1], 'NX', 'PX', ttl_ms)
if ARGV[1] == 'failed' or not first_use then
  -- One failed check counts as much as ten requests over a limit, so that guessing does not pay.
  record_abuse(USER_ABUSE_RULE, KEYS[1], KEYS[2], 10, now)
  redis.call('HINCRBY', KEYS[4], 'refused:human_check_failed', 1)
  return { 'failed' }
end
return { 'admitted' }
