-- Compares the gate's epoch with the ledger's, and clears messages of other epochs from the stream (G5, I4).
--
-- A gate of an older epoch belongs to an old Redis that came back: it is deleted, so that nothing is sold until a
-- rebuild. A gate of a later epoch stays and is reported: the ledger came back from a backup, and Redis counts every
-- order. Messages of other epochs were refused by the ledger, and an operator can see them as dead letters.
--
-- KEYS  1 gate, 2 orders (stream), 3 queue, then the order record of each message
-- ARGV  1 the ledger's epoch, 2 stream group, 3 TTL of a closed order (seconds), 4 reason, then for each message:
--       its epoch, its stream id
-- Reply missing (no complete gate) | closed (older epoch) | same (the ledger's epoch) | later; then the gate's epoch,
--       the gate's version

local gate = redis.call('HMGET', KEYS[1], 'epoch', 'version', 'restoring')
local gate_epoch, word = tonumber(gate[1] or ARGV[1]), 'same'
if gate_epoch > tonumber(ARGV[1]) then word = 'later' end
if not gate[1] or gate[3] then word = 'missing' end
if gate_epoch < tonumber(ARGV[1]) then
  redis.call('DEL', KEYS[1])
  word = 'closed'
end
for i = 4, #KEYS do
  local message_epoch, stream_id = ARGV[5 + (i - 4) * 2], ARGV[6 + (i - 4) * 2]
  local order = redis.call('HMGET', KEYS[i], 'status', 'epoch')
  -- If the same ticket has made a new order since, the record belongs to that order and stays.
  if order[1] == 'queued' and order[2] == message_epoch then
    redis.call('HSET', KEYS[i], 'status', 'failed', 'live', '0', 'reason', ARGV[4])
    redis.call('EXPIRE', KEYS[i], ARGV[3])
  end
  if redis.call('XACK', KEYS[2], ARGV[2], stream_id) == 1 then
    redis.call('XDEL', KEYS[2], stream_id)
    redis.call('HINCRBY', KEYS[3], 'written', 1)
  end
end
return { word, gate_epoch, tonumber(gate[2] or 0) }
