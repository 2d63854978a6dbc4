-- Reads one order and its place in the queue (D5, D7).
--
-- KEYS  1 order, 2 stats, 3 gate
-- Reply now (ms), then the values of read_order; if there is no such order, only whether the gate is complete (0 or 1):
--       then Redis has lost no order, and an order whose record has not expired does not exist

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local order = read_order(KEYS[1], KEYS[2])
if not order[1] then
  local gate = redis.call('HMGET', KEYS[3], 'epoch', 'restoring')
  return { now, gate[1] and not gate[2] and 1 or 0 }
end
table.insert(order, 1, now)
return order
