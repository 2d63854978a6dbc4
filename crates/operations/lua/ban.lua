-- Bans users and addresses of an activity (B6).
--
-- KEYS  one ban each
-- ARGV  for each ban: its expiry (ms)
-- Reply done

for i, key in ipairs(KEYS) do redis.call('SET', key, '1', 'PXAT', ARGV[i]) end
return { 'done' }
