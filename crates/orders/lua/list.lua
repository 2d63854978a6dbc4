-- Reads those of some orders of an activity that Redis has (D6).
--
-- KEYS  1 queued, 2 stats, 3 gate, 4 entries, then an order each
-- ARGV  1 user
-- Reply found, then for each that there is: its ULID, then order and the values of read_order, or entry and those of read_entry

local reply = { 'found' }
local now = read_time()
for i = 5, #KEYS do
  local ulid = string.sub(KEYS[i], -26)
  local order = read_order(KEYS[1], KEYS[2], KEYS[i])
  local entry = not order[1] and read_entry(KEYS[3], KEYS[4], ARGV[1], ulid, now)
  if order[1] then append(reply, ulid, 'order', unpack(order, 1, 15)) end
  if entry then append(reply, ulid, 'entry', unpack(entry)) end
end
return reply
