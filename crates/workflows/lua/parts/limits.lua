-- Before every script that limits: GCRA (B4), and what repeated abuse leads to (B6). No script of its own.

-- Looks at all limits before any is charged. `policies` are { name, "count:ms" or nil for none, key }.
-- Returns how they stand ("name;count;seconds;left;reset" joined by "|"), and the name and ms to wait of one that says
-- no.
local function limit(policies, clock)
  local standing, charged = '', {}
  for _, policy in ipairs(policies) do
    local count, period = string.match(policy[2] or '', '^(%d+):(%d+)$')
    if count then
      count, period = tonumber(count), tonumber(period)
      local interval = period / count
      local known = tonumber(redis.call('GET', policy[3]) or 0)
      -- No bucket is emptier than empty: this one is from a stricter limit, or from a clock that was fast.
      if known > clock + period + 1 then
        known = clock + period
        redis.call('SET', policy[3], string.format('%.3f', known), 'PX', math.ceil(period) + 1)
      end
      local arrival = math.max(known, clock) + interval
      local wait = arrival - period - clock
      local left = math.max(0, math.floor(-wait / interval + 1e-6))
      local reset = math.ceil((arrival - clock) / 1000)
      if wait > 1e-6 then left, reset = 0, math.ceil(wait / 1000) end
      standing = standing .. (standing == '' and '' or '|')
        .. table.concat({ policy[1], count, math.ceil(period / 1000), left, reset }, ';')
      if wait > 1e-6 then return standing, policy[1], math.ceil(wait) end
      charged[#charged + 1] = { policy[3], arrival }
    end
  end
  for _, charge in ipairs(charged) do
    redis.call('SET', charge[1], string.format('%.3f', charge[2]), 'PX', math.ceil(charge[2] - clock) + 1)
  end
  return standing
end

-- Abuse that leads to a ban: so much within a minute, for so many ms. A user is a person; behind an address there can
-- be a city.
local USER_ABUSE, ADDRESS_ABUSE = { 60, 600000 }, { 600, 60000 }

-- Counts abuse in `record`, and bans by the key `ban` when it becomes too much. Records last a day: who was banned
-- looks suspicious for that long.
local function abuse(bound, record, ban, weight, now)
  local known = redis.call('HMGET', record, 'count', 'since')
  local count, since = tonumber(known[1] or 0), tonumber(known[2] or 0)
  if now - since > 60000 then count, since = 0, now end
  count = count + weight
  if count >= bound[1] then
    if redis.call('SET', ban, '1', 'NX', 'PX', bound[2]) then redis.call('HINCRBY', record, 'bans', 1) end
    count = 0
  end
  redis.call('HSET', record, 'count', count, 'since', since)
  redis.call('PEXPIRE', record, 86400000)
end
