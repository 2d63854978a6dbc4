-- Closes a gate of an older epoch than the ledger's (an old Redis that came back): it sells nothing until it is rebuilt.
-- A gate of a later one says so, and stays: it is the ledger that came back, from a backup, and Redis counts everything.
-- Takes messages of other epochs, which the ledger refused and an operator can see, out of the stream (G5, I4).
--
-- KEYS  1 gate, 2 orders (stream), 3 queue, then the order record of each message
-- ARGV  1 the ledger's epoch, 2 stream group, 3 seconds that a closed order is kept, 4 reason, then for each message
--       its epoch and stream id
-- Reply missing (no whole gate), closed, same (the gate is of this epoch) or later; then the gate's epoch and version

local known = redis.call('HMGET', KEYS[1], 'epoch', 'version', 'restoring')
local gate, word = tonumber(known[1] or ARGV[1]), 'same'
if gate > tonumber(ARGV[1]) then word = 'later' end
if not known[1] or known[3] then word = 'missing' end
if gate < tonumber(ARGV[1]) then
  redis.call('DEL', KEYS[1])
  word = 'closed'
end
for at = 4, #KEYS do
  local epoch, entry = ARGV[5 + (at - 4) * 2], ARGV[6 + (at - 4) * 2]
  local known = redis.call('HMGET', KEYS[at], 'status', 'epoch')
  -- The same ticket may have made a new order since: that one lives.
  if known[1] == 'queued' and known[2] == epoch then
    redis.call('HSET', KEYS[at], 'status', 'failed', 'live', '0', 'reason', ARGV[4])
    redis.call('EXPIRE', KEYS[at], ARGV[3])
  end
  if redis.call('XACK', KEYS[2], ARGV[2], entry) == 1 then
    redis.call('XDEL', KEYS[2], entry)
    redis.call('HINCRBY', KEYS[3], 'written', 1)
  end
end
return { word, gate, tonumber(known[2] or 0) }
