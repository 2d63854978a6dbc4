-- Functions for rate limits (GCRA, B4) and abuse (B6), prepended to every script that charges a limit or gives it back. Not a script of its own.

-- Checks all limits before charging any. `policies` are { name, "count:ms" or nil for none, key }; a key holds the
-- theoretical arrival time (TAT, ms). Returns the state of the limits ("name;count;seconds;left;reset" joined by "|")
-- and, if one is exceeded, its name and the ms to wait.
local function limit(policies, now_ms)
  local report, charges = '', {}
  for _, policy in ipairs(policies) do
    local count, period_ms = string.match(policy[2] or '', '^(%d+):(%d+)$')
    if count then
      count, period_ms = tonumber(count), tonumber(period_ms)
      local interval_ms = period_ms / count
      local tat = tonumber(redis.call('GET', policy[3]) or 0)
      -- A TAT further ahead than one period is impossible: it is left from a limit with a longer period, or from a
      -- clock that was fast.
      if tat > now_ms + period_ms + 1 then
        tat = now_ms + period_ms
        redis.call('SET', policy[3], string.format('%.3f', tat), 'PX', math.ceil(period_ms) + 1)
      end
      local next_tat = math.max(tat, now_ms) + interval_ms
      local wait_ms = next_tat - period_ms - now_ms
      local remaining = math.max(0, math.floor(-wait_ms / interval_ms + 1e-6))
      local reset_seconds = math.ceil((next_tat - now_ms) / 1000)
      if wait_ms > 1e-6 then remaining, reset_seconds = 0, math.ceil(wait_ms / 1000) end
      report = report .. (report == '' and '' or '|')
        .. table.concat({ policy[1], count, math.ceil(period_ms / 1000), remaining, reset_seconds }, ';')
      if wait_ms > 1e-6 then return report, policy[1], math.ceil(wait_ms) end
      charges[#charges + 1] = { policy[3], next_tat }
    end
  end
  for _, charge in ipairs(charges) do
    redis.call('SET', charge[1], string.format('%.3f', charge[2]), 'PX', math.ceil(charge[2] - now_ms) + 1)
  end
  return report
end

-- Gives back what a limit was charged at `since_ms`, while that counts.
local function give_back(policy, key, since_ms, now_ms)
  local count, period_ms = string.match(policy or '', '^(%d+):(%d+)$')
  local tat = count and tonumber(redis.call('GET', key))
  if not tat or now_ms - since_ms >= tonumber(period_ms) then return end
  tat = math.max(now_ms, tat - period_ms / count)
  redis.call('SET', key, string.format('%.3f', tat), 'PX', math.ceil(tat - now_ms) + 1)
end

-- Whether an address is that of a client or its network: an unknown, private, shared, link-local or loopback one is a
-- proxy's, or everybody's.
local function is_client(address)
  local first, second = string.match(address, '^(%d+)%.(%d+)%.')
  if first then
    first, second = tonumber(first), tonumber(second)
    return not (first == 0 or first == 10 or first == 127 or first == 169 and second == 254
      or first == 172 and second >= 16 and second < 32 or first == 192 and second == 168
      or first == 100 and second >= 64 and second < 128)
  end
  local group = tonumber(string.match(address, '^(%x+):') or '', 16)
  -- fc00::/7 and fe80::/10; ::1 is in 0::/64.
  return group and not (group == 0 or group >= 0xfc00 and group < 0xfe00 or group >= 0xfe80 and group < 0xfec0)
end

-- Adds `weight` points of abuse to a user's record: 60 within a minute ban the user for ten minutes. A record expires after
-- half an hour, the longest time that is counted over; with a ban after a day, so that its user looks suspicious for that
-- long.
local function record_abuse(record_key, ban_key, weight, now)
  local record = redis.call('HMGET', record_key, 'count', 'since', 'bans')
  local count, since = tonumber(record[1] or 0), tonumber(record[2] or 0)
  if now - since > 60000 then count, since = 0, now end
  count = count + weight
  if count >= 60 then
    if redis.call('SET', ban_key, '1', 'NX', 'PX', 600000) then record[3] = redis.call('HINCRBY', record_key, 'bans', 1) end
    count = 0
  end
  redis.call('HSET', record_key, 'count', count, 'since', since)
  redis.call('PEXPIRE', record_key, record[3] and 86400000 or 1800000)
end

-- Adds points of abuse to the record of an address: 600 within a minute mark it as suspicious for a minute. Many people may
-- share an address, so only operators ban one. The record counts for a minute and no longer: a client can have very many
-- addresses, and its neighbours are innocent.
local function record_address_abuse(key, mark, address, points)
  local count = redis.call('HINCRBY', key, 'count', points)
  if count == tonumber(points) then redis.call('PEXPIRE', key, 60000) end
  if count >= 600 then
    redis.call('DEL', key)
    if is_client(address) then redis.call('SET', mark, '1', 'PX', 60000) end
  end
end

-- Records what an instance counted since its last call: pairs of a name and a number in ARGV from `first` on. The name is
-- `refused:<code>`, `refused:sign_in:<reason>`, or the address that sent bad tokens or tickets: then KEYS has its abuse
-- and its mark, from `first_key` on.
local function record_counts(first, first_key, stats, has_gate)
  local key = first_key
  for i = first, #ARGV, 2 do
    local name, number = ARGV[i], ARGV[i + 1]
    if string.sub(name, 1, 8) ~= 'refused:' then
      record_address_abuse(KEYS[key], KEYS[key + 1], name, number)
      key = key + 2
    elseif has_gate then
      redis.call('HINCRBY', stats, name, number)
    end
  end
end
