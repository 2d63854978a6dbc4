-- Forgets what Redis knows of a closed or paused sale, so that it is made anew from the ledger (G5).
--
-- KEYS  1 gate, 2 orders (stream), 3 stats, 4 queue, 5 due, 6 winners, 7 awake
-- ARGV  1 key prefix, then the sale's SKUs
-- Reply forgotten; open (the sale is not paused or closed); queued (orders wait in the stream: let them be written)

local state = redis.call('HGET', KEYS[1], 'state')
if state and state ~= 'paused' and state ~= 'closed' then return { 'open' } end
if redis.call('XLEN', KEYS[2]) > 0 then return { 'queued' } end
for at = 1, #KEYS do redis.call('DEL', KEYS[at]) end
for at = 2, #ARGV do
  redis.call('DEL', ARGV[1] .. 'stock:' .. ARGV[at], ARGV[1] .. 'holders:' .. ARGV[at])
end
return { 'forgotten' }
