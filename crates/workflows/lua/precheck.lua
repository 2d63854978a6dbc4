-- Somebody who is signed in asks for a challenge or a ticket (B1): bans, limits, how suspicious they are (B4–B6), and how
-- many have asked.
--
-- KEYS  1 gate, 2 ban of the user, 3 ban of the address, 4 rate of the user, 5 rate of the address, 6 abuse of the
--       user, 7 abuse of the address, 8 stats, 9 visitors (HyperLogLog), then for each address that sent bad tokens or
--       tickets: its abuse, its ban
-- ARGV  1 user, then for each such address: how many
-- Reply word, now (ms), limits ("name;count;seconds;left;reset" joined by "|"), then
--       welcome: score; rate_limited: name, ms to wait; and nothing for: not_ready, banned

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for at = 2, #ARGV do abuse(ADDRESS_ABUSE, KEYS[6 + at * 2], KEYS[7 + at * 2], tonumber(ARGV[at]), now) end

local g = redis.call('HMGET', KEYS[1], 'state', 'limit_user', 'limit_ip', 'keep_until')
if not g[1] then return { 'not_ready', now, '' } end
if redis.call('EXISTS', KEYS[2], KEYS[3]) > 0 then
  redis.call('HINCRBY', KEYS[8], 'refused:banned', 1)
  return { 'banned', now, '' }
end
local policies = { { 'user', g[2], KEYS[4] }, { 'ip', g[3], KEYS[5] } }
local limits, name, wait = limit(policies, time[1] * 1000 + time[2] / 1000)
if name then
  if name == 'user' then abuse(USER_ABUSE, KEYS[6], KEYS[2], 1, now) else abuse(ADDRESS_ABUSE, KEYS[7], KEYS[3], 1, now) end
  redis.call('HINCRBY', KEYS[8], 'refused:rate_limited', 1)
  return { 'rate_limited', now, limits, name, wait }
end
if redis.call('PFADD', KEYS[9], ARGV[1]) == 1 and g[4] then redis.call('PEXPIREAT', KEYS[9], g[4]) end

-- Recent abuse counts singly, a ban of the last day fifty times; behind an address there can be a city.
local function suspicion(record)
  local known = redis.call('HMGET', record, 'count', 'since', 'bans')
  local recent = now - tonumber(known[2] or 0) <= 600000 and tonumber(known[1] or 0) or 0
  return recent + 50 * tonumber(known[3] or 0)
end
return { 'welcome', now, limits, suspicion(KEYS[6]) + math.floor(suspicion(KEYS[7]) / 10) }
