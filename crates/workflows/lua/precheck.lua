-- Checks bans and limits when a signed-in visitor asks for a challenge or a ticket (B4, B5, B6). Returns the visitor's
-- suspicion score without strikes, counts visitors, and notes the ticket under its user (D6).
--
-- KEYS  1 gate, 2 ban of the user, 3 ban of the address, 4 rate of the user, 5 rate of the address,
--       6 abuse of the user, 7 abuse of the address, 8 stats, 9 visitors (HyperLogLog), 10 rate of the
--       user's tickets, 11 tickets of the user (sorted set: ULID → time of issue, ms),
--       then for each address that sent bad tokens or tickets: its abuse, its ban
-- ARGV  1 user, 2 limit of the user's open tickets ("count:ms"), 3 ULID of the ticket, 4 how many tickets are noted,
--       5 ms until the notes expire; 2 to 5 are "" if no ticket is asked for,
--       then for each such address: number of attempts
-- Reply word, limits ("name;count;seconds;left;reset" joined by "|"), then
--       welcome: score; rate_limited: ms to wait; nothing for not_ready, banned

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i = 6, #ARGV do record_abuse(ADDRESS_ABUSE_RULE, KEYS[i * 2], KEYS[i * 2 + 1], tonumber(ARGV[i]), now) end

local gate = redis.call('HMGET', KEYS[1], 'state', 'limit_user', 'limit_ip', 'keep_until')
if not gate[1] then return { 'not_ready', '' } end
if redis.call('EXISTS', KEYS[2], KEYS[3]) > 0 then
  redis.call('HINCRBY', KEYS[8], 'refused:banned', 1)
  return { 'banned', '' }
end
local policies = { { 'user', gate[2], KEYS[4] }, { 'ip', gate[3], KEYS[5] } }
-- A client may have all 65,536 networks of an IPv6 /48: together they get as much as four addresses.
local site, count, period = string.match(KEYS[5], '^(.*):%x+::/64$'), string.match(gate[3] or '', '^(%d+):(%d+)$')
if site and count then policies[3] = { 'site', count * 4 .. ':' .. period, site .. '::/48' } end
local limits, limit_name, wait_ms = limit(policies, time[1] * 1000 + time[2] / 1000)
if limit_name then
  if limit_name == 'user' then
    record_abuse(USER_ABUSE_RULE, KEYS[6], KEYS[2], 1, now)
  else
    record_abuse(ADDRESS_ABUSE_RULE, KEYS[7], KEYS[3], 1, now)
  end
  redis.call('HINCRBY', KEYS[8], 'refused:rate_limited', 1)
  return { 'rate_limited', limits, wait_ms }
end
-- A user cannot stockpile tickets, unless the activity limits no user. A reload of the page is no abuse.
if ARGV[2] ~= '' and (gate[2] or '') ~= '' then
  local report, open_tickets, until_ms = limit({ { 'user', ARGV[2], KEYS[10] } }, time[1] * 1000 + time[2] / 1000)
  if open_tickets then
    redis.call('HINCRBY', KEYS[8], 'refused:rate_limited', 1)
    return { 'rate_limited', report, until_ms }
  end
end
if ARGV[3] ~= '' then
  redis.call('ZADD', KEYS[11], now, ARGV[3])
  redis.call('ZREMRANGEBYRANK', KEYS[11], 0, -1 - ARGV[4])
  redis.call('PEXPIRE', KEYS[11], ARGV[5])
end
if redis.call('PFADD', KEYS[9], ARGV[1]) == 1 and gate[4] then redis.call('PEXPIREAT', KEYS[9], gate[4]) end

-- Abuse points of the record's latest one-minute window, if it began within the last ten minutes, plus 50 for each ban
-- since the record began (a record with a ban expires a day after the last abuse). The address counts for a tenth: many
-- people may share one.
local function suspicion(key)
  local record = redis.call('HMGET', key, 'count', 'since', 'bans')
  local recent = now - tonumber(record[2] or 0) <= 600000 and tonumber(record[1] or 0) or 0
  return recent + 50 * tonumber(record[3] or 0)
end
-- The visitors of an address that is marked meet SUSPICION_THRESHOLD in hot/admission.rs.
local mark = suspect_key(KEYS[3])
local marked = mark and redis.call('EXISTS', mark) == 1
return { 'welcome', limits, suspicion(KEYS[6]) + math.floor(suspicion(KEYS[7]) / 10) + (marked and 20 or 0) }
