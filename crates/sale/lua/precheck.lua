-- Checks bans and limits when a signed-in visitor asks for a challenge or a ticket (B4, B5, B6). Returns the visitor's
-- suspicion score without strikes, counts visitors, and notes the ticket under its user (D6).
--
-- KEYS  1 gate, 2 stats, 3 visitors, 4 tickets of the user, 5 ban, 6 abuse, 7 limit and 8 limit in numbers of the user, 9
--       ban, 10 abuse, 11 mark and 12 limit of the address, 13 limit of its site, then those of the instance's counts
-- ARGV  1 user, 2 address, 3 "1" if the address has a site, 4 ULID of the ticket ("" for a challenge), 5 how many tickets or
--       pictures a user gets, as "count:ms" ("" for any number), 6 how many tickets are noted, 7 ms that they are noted for,
--       then the instance's counts (`record_counts`)
-- Reply welcome, limits ("name;count;seconds;left;reset" joined by "|"), score | a code that refuses, limits, ms to wait
--       (0 if waiting does not help)

local call = redis.call
local user, address, ulid, allowance, stats = ARGV[1], ARGV[2], ARGV[4], ARGV[5], KEYS[2]
local now, exact_now = read_time()

local gate = call('HMGET', KEYS[1], 'state', 'limit_user', 'limit_ip', 'keep_until')
local limit_user, limit_ip = gate[2] or '', gate[3] or ''
record_counts(8, 14, stats, gate[1])
if not gate[1] then return { 'not_ready', '', 0 } end
local user_ban, user_abuse, address_ban, mark = KEYS[5], KEYS[6], KEYS[9], KEYS[11]
-- Most visitors have none of these: one call shows it.
local has_record = call('EXISTS', user_ban, address_ban, user_abuse, mark) > 0
if has_record and call('EXISTS', user_ban, address_ban) > 0 then
  call('HINCRBY', stats, 'refused:banned', 1)
  return { 'banned', '', 0 }
end

local policies = { { 'user', limit_user, KEYS[7] }, { 'ip', limit_ip, KEYS[12] } }
-- A client may have all 65,536 networks of an IPv6 /48: together they get as much as four addresses.
local count, period = string.match(limit_ip, '^(%d+):(%d+)$')
if ARGV[3] == '1' and count then policies[3] = { 'site', count * 4 .. ':' .. period, KEYS[13] } end
local limits, limit_name, wait_ms = limit(policies, exact_now)
if limit_name then
  if limit_name == 'user' then
    record_abuse(user_abuse, user_ban, 1, now)
  else
    record_address_abuse(KEYS[10], mark, address, 1)
  end
  call('HINCRBY', stats, 'refused:rate_limited', 1)
  return { 'rate_limited', limits, wait_ms }
end
-- A user cannot stockpile tickets, unless the activity limits no user, nor order pictures without end, which take longer to
-- draw than all else. A reload of the page is no abuse.
if allowance ~= '' and (ulid == '' or limit_user ~= '') then
  local report, exceeded, until_ms = limit({ { 'user', allowance, KEYS[8] } }, exact_now)
  if exceeded then
    call('HINCRBY', stats, 'refused:rate_limited', 1)
    return { 'rate_limited', report, until_ms }
  end
end
if ulid ~= '' then
  local tickets = KEYS[4]
  call('ZADD', tickets, to_text(now), ulid)
  call('ZREMRANGEBYRANK', tickets, '0', -1 - ARGV[6])
  call('PEXPIRE', tickets, ARGV[7])
end
if call('PFADD', KEYS[3], user) == 1 and gate[4] then call('PEXPIREAT', KEYS[3], gate[4]) end
if not has_record then return { 'welcome', limits, 0 } end

-- Abuse points of the record's latest one-minute window, if it began within the last ten minutes, plus 50 for each ban
-- since the record began (a record with a ban expires a day after the last abuse).
local record = call('HMGET', user_abuse, 'count', 'since', 'bans')
local recent = now - tonumber(record[2] or 0) <= 600000 and tonumber(record[1] or 0) or 0
-- The visitors of an address that is marked meet SUSPICION_THRESHOLD in admission.rs.
local is_marked = call('EXISTS', mark) == 1
return { 'welcome', limits, recent + 50 * tonumber(record[3] or 0) + (is_marked and 20 or 0) }
