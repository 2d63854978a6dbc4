-- Bans users and addresses of a sale (B6).
--
-- KEYS  their bans
-- ARGV  until when each holds (ms)
-- Reply banned

for at, key in ipairs(KEYS) do redis.call('SET', key, '1', 'PXAT', ARGV[at]) end
return { 'banned' }
