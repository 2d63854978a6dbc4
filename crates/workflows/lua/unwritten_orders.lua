-- Reads those orders of a user's tickets that the ledger does not have: queued and failed ones (D6).
--
-- KEYS  for each activity: tickets of the user, stats
-- Reply for each order: position of its activity (from 0), ULID, then the values of read_order

local reply = {}
for key = 1, #KEYS, 2 do
  local prefix = string.sub(KEYS[key + 1], 1, -6)
  for _, ulid in ipairs(redis.call('ZRANGE', KEYS[key], 0, -1)) do
    local order = read_order(prefix .. 'order:' .. ulid, KEYS[key + 1])
    if order[1] == 'queued' or order[1] == 'failed' then
      reply[#reply + 1] = (key - 1) / 2
      reply[#reply + 1] = ulid
      -- Not the loop of ipairs: it would end at a field that the record lacks.
      for i = 1, 13 do reply[#reply + 1] = order[i] or '' end
    end
  end
end
return reply
