-- Checks bans and limits when a signed-in visitor asks for a challenge or a ticket (B4, B5, B6). Returns the visitor's
-- suspicion score without strikes, counts visitors, and notes the ticket under its user (D6).
--
-- As in reserve.lua, the names of the other keys are made here from the gate's.
--
-- KEYS  1 gate
-- ARGV  1 user, 2 address, 3 challenge or ticket, 4 ULID of the ticket ("" for a challenge), 5 how many tickets or pictures
--       a user gets, as "count:ms" ("" for any number), 6 how many tickets are noted, 7 ms that they are noted for, then the
--       instance's counts (`record_counts`)
-- Reply welcome, limits ("name;count;seconds;left;reset" joined by "|"), score | a code that refuses, limits, ms to wait
--       (0 if waiting does not help)

local call = redis.call
local user, address, endpoint, ulid, allowance = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local prefix = string.sub(KEYS[1], 1, -5)
local stats = prefix .. 'stats'
local now, exact_now = read_time()

local gate = call('HMGET', KEYS[1], 'state', 'limit_user', 'limit_ip', 'keep_until')
local limit_user, limit_ip = gate[2] or '', gate[3] or ''
record_counts(8, prefix, gate[1])
if not gate[1] then return { 'not_ready', '', 0 } end
local user_ban, user_abuse = prefix .. 'ban:user:' .. user, prefix .. 'abuse:user:' .. user
local address_ban, mark = prefix .. 'ban:ip:' .. address, suspect_key(prefix, address)
-- Most visitors have none of these: one call shows it.
local has_record = call('EXISTS', user_ban, address_ban, user_abuse, mark or address_ban) > 0
if has_record and call('EXISTS', user_ban, address_ban) > 0 then
  call('HINCRBY', stats, 'refused:banned', 1)
  return { 'banned', '', 0 }
end

local rate = prefix .. 'rate:' .. endpoint
local policies = { { 'user', limit_user, rate .. ':user:' .. user }, { 'ip', limit_ip, rate .. ':ip:' .. address } }
-- A client may have all 65,536 networks of an IPv6 /48: together they get as much as four addresses.
local site = limit_ip ~= '' and string.match(address, '^(.*):%x+::/64$')
local count, period = string.match(limit_ip, '^(%d+):(%d+)$')
if site and count then policies[3] = { 'site', count * 4 .. ':' .. period, rate .. ':ip:' .. site .. '::/48' } end
local limits, limit_name, wait_ms = limit(policies, exact_now)
if limit_name then
  if limit_name == 'user' then
    record_abuse(user_abuse, user_ban, 1, now)
  else
    record_address_abuse(prefix, address, 1)
  end
  call('HINCRBY', stats, 'refused:rate_limited', 1)
  return { 'rate_limited', limits, wait_ms }
end
-- A user cannot stockpile tickets, unless the activity limits no user, nor order pictures without end, which take longer to
-- draw than all else. A reload of the page is no abuse.
if allowance ~= '' and (ulid == '' or limit_user ~= '') then
  local policy = { 'user', allowance, prefix .. (ulid == '' and 'rate:pictures:' or 'rate:tickets:') .. user }
  local report, exceeded, until_ms = limit({ policy }, exact_now)
  if exceeded then
    call('HINCRBY', stats, 'refused:rate_limited', 1)
    return { 'rate_limited', report, until_ms }
  end
end
if ulid ~= '' then
  local tickets = prefix .. 'tickets:' .. user
  call('ZADD', tickets, to_text(now), ulid)
  call('ZREMRANGEBYRANK', tickets, '0', -1 - ARGV[6])
  call('PEXPIRE', tickets, ARGV[7])
end
local visitors = prefix .. 'visitors'
if call('PFADD', visitors, user) == 1 and gate[4] then call('PEXPIREAT', visitors, gate[4]) end
if not has_record then return { 'welcome', limits, 0 } end

-- Abuse points of the record's latest one-minute window, if it began within the last ten minutes, plus 50 for each ban
-- since the record began (a record with a ban expires a day after the last abuse).
local record = call('HMGET', user_abuse, 'count', 'since', 'bans')
local recent = now - tonumber(record[2] or 0) <= 600000 and tonumber(record[1] or 0) or 0
-- The visitors of an address that is marked meet SUSPICION_THRESHOLD in admission.rs.
local is_marked = mark and call('EXISTS', mark) == 1
return { 'welcome', limits, recent + 50 * tonumber(record[3] or 0) + (is_marked and 20 or 0) }
