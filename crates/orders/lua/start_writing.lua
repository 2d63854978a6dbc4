-- Registers that a writer starts on an activity, and counts the activities with a start in the last second (D3).
--
-- KEYS  1 writers (sorted set: activity → time of its latest start, ms)
-- ARGV  1 activity
-- Reply now (ms), number of activities

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - 1000))
redis.call('PEXPIRE', KEYS[1], '2000')
return { now, redis.call('ZCARD', KEYS[1]) }
