-- Marks a human check as used (B5), or counts a wrong presale code (B7). A check counts once, whether it was answered correctly or not. A repeated call of
-- the same request, whose reply was lost, gets the same reply and counts as no abuse.
--
-- KEYS  1 abuse of the user, 2 ban of the user, 3 the check (of the ticket, if this application did not issue it),
--       4 stats
-- ARGV  1 passed, failed or wrong_code, 2 ms until the key of the check expires, 3 ULID of the ticket that is asked for
-- Reply admitted | human_check_failed (answered wrongly, or used by another request) | not_eligible (a wrong code) |
--       banned (since the precheck)

local now = read_time()
local used_for = redis.call('GET', KEYS[3])
local is_repeated = used_for == ARGV[3]
-- Guesses that are sent at once all pass the precheck: those after the ban are not judged, also a right one.
if not is_repeated and redis.call('EXISTS', KEYS[2]) == 1 then
  redis.call('HINCRBY', KEYS[4], 'refused:banned', 1)
  return { 'banned' }
end
if not used_for then redis.call('SET', KEYS[3], ARGV[3], 'PX', ARGV[2]) end
if ARGV[1] == 'passed' and (not used_for or is_repeated) then return { 'admitted' } end
if ARGV[1] == 'wrong_code' then
  local wrong = is_repeated and 1 or redis.call('HINCRBY', KEYS[1], 'wrong_codes', 1)
  if redis.call('PTTL', KEYS[1]) < 0 then redis.call('PEXPIRE', KEYS[1], 1800000) end
  -- Each tenth counts as a failed check.
  if wrong % 10 > 0 then return { 'not_eligible' } end
end
if not is_repeated then
  -- Slow guesses count over half an hour, in which tickets are issued before a start. Ten failures are a ban as long as
  -- that: they are all that an account has.
  local failures = redis.call('HMGET', KEYS[1], 'failed', 'failed_since')
  local failed, since = tonumber(failures[1] or 0) + 1, tonumber(failures[2] or 0)
  if now - since > 1800000 then failed, since = 1, now end
  if failed >= 10 then
    redis.call('SET', KEYS[2], '1', 'PX', 1800000)
    redis.call('HINCRBY', KEYS[1], 'bans', 1)
    failed = 0
  end
  redis.call('HSET', KEYS[1], 'failed', failed, 'failed_since', since)
  -- One failed check counts as much as ten requests over a limit, so that guessing does not pay. This comes last: its
  -- ban is the shorter one, and does not replace the other.
  record_abuse(KEYS[1], KEYS[2], 10, now)
  redis.call('HINCRBY', KEYS[4], 'refused:human_check_failed', 1)
end
return { 'human_check_failed' }
