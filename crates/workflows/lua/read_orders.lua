-- How orders stand in Redis that an epoch counts, many at once (G5).
--
-- KEYS  order records
-- ARGV  1 the epoch
-- Reply for each: status, "1" where it holds units, checkout_url; three times "" where it has no record of the epoch

local reply = {}
for at, key in ipairs(KEYS) do
  local known = redis.call('HMGET', key, 'epoch', 'status', 'live', 'checkout_url')
  local counted = known[1] == ARGV[1]
  local holds = known[3] == '1' or known[2] == 'queued' or known[2] == 'pending_payment'
  reply[at * 3 - 2] = counted and known[2] or ''
  reply[at * 3 - 1] = counted and holds and '1' or ''
  reply[at * 3] = counted and known[4] or ''
end
return reply
