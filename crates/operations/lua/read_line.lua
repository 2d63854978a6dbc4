-- Reads those who wait in the line, a step at a time, for a rebuild (G5; H1).
--
-- KEYS  1 entries
-- ARGV  1 cursor ("0" to begin), 2 about how many users to look at
-- Reply found, next cursor ("0" at the end), then for each entry: user, ULID, SKU, amount, currency, created_at (ms), epoch,
--       sequence

local page = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
local reply = { 'found', page[1] }
for i = 1, #page[2], 2 do
  local user = page[2][i]
  for _, entry in ipairs(read_entries(KEYS[1], user)) do
    if entry.state == 'waiting' then
      append(reply, user, entry.ulid, entry.sku, entry.amount, entry.currency, entry.created_at, entry.epoch, entry.sequence)
    end
  end
end
return reply
