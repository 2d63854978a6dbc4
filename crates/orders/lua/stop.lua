-- Stops a gate because the ledger has two orders for one place: Redis has lost the first (G16).
--
-- KEYS  1 gate
-- ARGV  1 epoch and 2 sequence of the orders
-- Reply done (also if the gate is missing, has a later epoch, or is being rebuilt)

local gate = redis.call('HMGET', KEYS[1], 'epoch', 'restoring')
if gate[1] and not gate[2] and tonumber(gate[1]) <= tonumber(ARGV[1]) then stop_gate(KEYS[1], ARGV[1], ARGV[2]) end
return { 'done' }
