-- Reads those orders of a user's tickets that the ledger does not have: queued and failed ones (D6).
--
-- KEYS  1 tickets of the user, 2 stats
-- Reply for each order: ULID, then the values of read_order

local prefix = string.sub(KEYS[2], 1, -6)
local reply = {}
for _, ulid in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local order = read_order(prefix .. 'order:' .. ulid, KEYS[2])
  if order[1] == 'queued' or order[1] == 'failed' then
    reply[#reply + 1] = ulid
    -- Not the loop of ipairs: it would end at a field that the record lacks.
    for i = 1, 13 do reply[#reply + 1] = order[i] or '' end
  end
end
return reply
