-- Reads those of some orders of an activity that Redis has (D6).
--
-- KEYS  1 queued, 2 stats, then an order each
-- ARGV  none
-- Reply found, then for each order that there is: its ULID, then the values of read_order

local reply = { 'found' }
for i = 3, #KEYS do
  local order = read_order(KEYS[1], KEYS[2], KEYS[i])
  if order[1] then append(reply, string.sub(KEYS[i], -26), unpack(order, 1, 15)) end
end
return reply
