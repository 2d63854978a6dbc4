-- Compares the gate with the ledger, corrects the stock, and clears messages of other epochs from the stream (G4, G5,
-- I1, I4).
--
-- A gate of an older epoch belongs to an old Redis that came back: it is deleted, so that nothing is sold until a
-- rebuild. A gate of a later epoch stays and is reported: the ledger came back from a backup, and Redis counts every
-- order. Messages of other epochs were refused by the ledger, and an operator can see them as dead letters.
--
-- Units that no order holds and that are not in the stock (settle.lua withheld them) return to the stock as soon as
-- Redis counts every unit that the ledger counted before.
--
-- KEYS  1 gate, 2 orders (stream), 3 queue, 4 stats, then the order record of each message
-- ARGV  1 key prefix, 2 the ledger's epoch, 3 stream group, 4 TTL of a closed order (seconds), 5 reason, 6 number of
--       SKUs, then for each SKU: id, its live units in the ledger; then for each message: its epoch, its stream id
-- Reply missing (no complete gate) | closed (older epoch) | same (the ledger's epoch) | later; then the gate's epoch,
--       its version, the version that its totals were lowered for (0 if that is its own), ms since its last change,
--       messages in the stream

local call = redis.call
local prefix = ARGV[1]
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local gate = call('HMGET', KEYS[1], 'epoch', 'version', 'restoring', 'changed_at', 'lowered')
local gate_epoch, word = tonumber(gate[1] or ARGV[2]), 'same'
if gate_epoch > tonumber(ARGV[2]) then word = 'later' end
if not gate[1] or gate[3] then word = 'missing' end
if gate_epoch < tonumber(ARGV[2]) then
  call('DEL', KEYS[1])
  word = 'closed'
end
local first_message_arg = 7 + 2 * ARGV[6]
if word == 'same' then
  for i = 7, first_message_arg - 1, 2 do
    local stock, left, expected_left = read_stock(prefix, ARGV[i])
    if stock and left < expected_left then
      local counts = call('HMGET', KEYS[4], 'pending:' .. ARGV[i], 'sold:' .. ARGV[i])
      local counted = tonumber(counts[1] or 0) + tonumber(counts[2] or 0)
      if counted >= tonumber(ARGV[i + 1]) then set_stock(stock, expected_left) end
    end
  end
end
for i = 5, #KEYS do
  local message_arg = first_message_arg + (i - 5) * 2
  local order = call('HMGET', KEYS[i], 'status', 'epoch')
  -- If the same ticket has made a new order since, the record belongs to that order and stays.
  if order[1] == 'queued' and order[2] == ARGV[message_arg] then
    call('HSET', KEYS[i], 'status', 'failed', 'live', '0', 'reason', ARGV[5])
    call('EXPIRE', KEYS[i], ARGV[4])
  end
  if call('XACK', KEYS[2], ARGV[3], ARGV[message_arg + 1]) == 1 then
    call('XDEL', KEYS[2], ARGV[message_arg + 1])
    call('HINCRBY', KEYS[3], 'written', 1)
  end
end
local queued = call('XLEN', KEYS[2])
if word == 'same' then
  -- An order is counted as enqueued and gets its message in one step. A crash of Redis may separate the two.
  local enqueued = tonumber(call('HGET', KEYS[3], 'enqueued') or 0)
  if enqueued > 0 then call('HSET', KEYS[3], 'written', math.max(0, enqueued - queued)) end
end
return { word, gate_epoch, tonumber(gate[2] or 0), tonumber(gate[5] or 0), now - tonumber(gate[4] or 0),
  queued }
