-- Reads one order and its place in the queue (D5, D7).
--
-- KEYS  1 order, 2 stats
-- Reply now (ms), then the values of read_order; only now if there is no such order

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local order = read_order(KEYS[1], KEYS[2])
if not order[1] then return { now } end
table.insert(order, 1, now)
return order
