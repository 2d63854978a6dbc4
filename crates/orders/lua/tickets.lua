-- Lists what a user may have of an activity that the ledger does not have (D6): the tickets that are noted, and their entries
-- in the line, which outlive their tickets.
--
-- KEYS  1 tickets of the user, 2 entries
-- ARGV  1 user
-- Reply found, then their ULIDs

local reply = redis.call('ZRANGE', KEYS[1], '0', '-1')
local noted = {}
for _, ulid in ipairs(reply) do noted[ulid] = true end
for _, entry in ipairs(read_entries(KEYS[2], ARGV[1])) do
  if not noted[entry.ulid] then reply[#reply + 1] = entry.ulid end
end
table.insert(reply, 1, 'found')
return reply
