-- Forgets what Redis knows of a sale that is closed, paused or lost, so that it is made anew from the ledger (G5). Asked
-- without an epoch it only takes the gate away: from then on nothing is sold, and the ledger can raise the epoch.
--
-- KEYS  1 gate, 2 orders (stream), 3 stats, 4 queue, 5 winners, 6 awake
-- ARGV  1 key prefix, 2 the new epoch ("" to take the gate away), then the sale's SKUs
-- Reply forgotten; open (the sale is not paused or closed); queued (orders wait in the stream: let them be written);
--       fenced (a later rebuild is at work). With an epoch, a gate of an older one goes even if it is open: another
--       rebuild was slower, and the ledger refuses what that gate accepts.

local gate = redis.call('HMGET', KEYS[1], 'state', 'epoch', 'restoring')
local state, epoch = gate[1], tonumber(gate[2] or 0)
if ARGV[2] ~= '' and epoch > tonumber(ARGV[2]) then return { 'fenced' } end
local outdated = ARGV[2] ~= '' and epoch < tonumber(ARGV[2])
local is_selling = state and gate[2] and not gate[3] and not outdated
if is_selling and state ~= 'paused' and state ~= 'closed' then return { 'open' } end
if redis.call('XLEN', KEYS[2]) > 0 then return { 'queued' } end
redis.call('DEL', KEYS[1])
if ARGV[2] == '' then return { 'forgotten' } end
for i = 2, #KEYS do redis.call('DEL', KEYS[i]) end
for i = 3, #ARGV do
  redis.call('DEL', ARGV[1] .. 'stock:' .. ARGV[i], ARGV[1] .. 'holders:' .. ARGV[i])
end
redis.call('HSET', KEYS[1], 'epoch', ARGV[2], 'restoring', '1')
return { 'forgotten' }
