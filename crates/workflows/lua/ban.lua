-- Bans users and addresses of a sale (B6).
--
-- KEYS  their bans
-- ARGV  until when each holds (ms)
-- Reply banned

for i, key in ipairs(KEYS) do redis.call('SET', key, '1', 'PXAT', ARGV[i]) end
return { 'banned' }
