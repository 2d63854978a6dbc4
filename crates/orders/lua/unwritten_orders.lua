-- Reads those orders of a user's tickets that the ledger does not have: queued and failed ones (D6).
--
-- KEYS  for each activity: tickets of the user, stats
-- Reply for each order: position of its activity (from 0), ULID, then the values of read_order

local reply = {}
for key = 1, #KEYS, 2 do
  local prefix = string.sub(KEYS[key + 1], 1, -6)
  for _, ulid in ipairs(redis.call('ZRANGE', KEYS[key], 0, -1)) do
    local name = prefix .. 'order:' .. ulid
    -- Most tickets have no such order, and a whole record takes three times as long.
    local status = redis.call('HGET', name, 'status')
    if status == 'queued' or status == 'failed' then
      local order = read_order(name, KEYS[key + 1])
      reply[#reply + 1] = (key - 1) / 2
      reply[#reply + 1] = ulid
      -- Not the loop of ipairs: it would end at a field that the record lacks.
      for i = 1, 14 do reply[#reply + 1] = order[i] or '' end
    end
  end
end
return reply
