-- Prepares an activity's Redis data for a rebuild from the ledger (G5), if it is paused or closed, or has
-- no complete gate of the present epoch.
--
-- Without an epoch it deletes only the gate: from then on nothing is sold, and the ledger can raise the epoch.
--
-- With an epoch it deletes the gate, the stream, the counters, the stock and the holders, and creates the gate of that
-- epoch, marked `restoring`. An open gate of an older epoch is deleted, too: a slower rebuild created it, and the
-- ledger refuses the orders that it accepts. Order records, winners, bans, abuse records, rate limits and visitors
-- stay.
--
-- KEYS  1 gate, 2 orders (stream), 3 stats, 4 queue, 5 awake
-- ARGV  1 key prefix, 2 the new epoch ("" to delete only the gate), then the activity's SKUs
-- Reply forgotten | open (the activity is neither paused nor closed) | queued (orders wait in the stream: they must be
--       written first) | fenced (a later rebuild has started)

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
