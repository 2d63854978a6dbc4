-- Registers that a writer starts on an activity, and counts the activities with a start in the last second (D3).
--
-- KEYS  1 writers (sorted set: activity → time of its latest start, ms)
-- ARGV  1 activity
-- Reply done, now (ms), number of activities

local now = read_time()
redis.call('ZADD', KEYS[1], to_text(now), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', to_text(now - 1000))
redis.call('PEXPIRE', KEYS[1], '2000')
return { 'done', now, redis.call('ZCARD', KEYS[1]) }
