-- Reads those of a user's orders of an activity that the ledger does not have: queued and failed ones (D6).
--
-- KEYS  1 queued, 2 stats, then an order each
-- ARGV  none
-- Reply found, then for each order that is queued or failed: its ULID, then the values of read_order

local reply = { 'found' }
for i = 3, #KEYS do
  local order = read_order(KEYS[1], KEYS[2], KEYS[i])
  if order[1] == 'queued' or order[1] == 'failed' then append(reply, string.sub(KEYS[i], -26), unpack(order, 1, 14)) end
end
return reply
