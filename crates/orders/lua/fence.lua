-- Compares the gate with the ledger, corrects the stock, and clears messages of other epochs from the stream (G4, G5,
-- I1, I4).
--
-- A gate of an older epoch belongs to an old Redis that came back, or to a replica that lacks a rebuild: it is stopped, so
-- that nothing is sold until a rebuild. A gate of a later epoch stays and is reported: the ledger came back from a backup, and
-- Redis counts every order. Messages of other epochs were refused by the ledger, and an operator can see them as dead letters,
-- but for offers, whose buyers wait again.
--
-- A gate that is behind the last order that it accepted, by the ledger, is stopped: Redis has lost orders (G16).
--
-- Units that no order holds return to the stock: a script that Redis stopped half-way left them out. While nothing is
-- queued, every unit held waits for payment.
--
-- KEYS  1 gate, 2 orders (stream), 3 stats, 4 queued, then the order record of each message
-- ARGV  1 JSON: epoch (the ledger's), sequence (the highest of the ledger's orders of that epoch, read before), group
--       (of the stream), closed_ttl (of a closed order, seconds), reason, messages: for each {epoch, stream_id}
-- Reply no_gate, messages (in the stream), queued (orders) | restoring, messages, queued, epoch; a rebuild has not ended |
--       stopped or (it has an older epoch) fenced, messages, queued, epoch and sequence of the last order that it is known
--       to have accepted | newer, messages, queued, epoch (of the gate) | current, messages, queued, version (of the gate),
--       lowered (the version that its totals were lowered for, 0 if that is its own), ms since its last change

local call = redis.call
local options = cjson.decode(ARGV[1])
local now = read_time()
local gate = call('HMGET', KEYS[1], 'epoch', 'version', 'restoring', 'changed_at', 'lowered', 'stopped', 'skus')
local gate_epoch, word = tonumber(gate[1] or options.epoch), 'current'
if gate_epoch > options.epoch then word = 'newer' end
if not gate[1] or gate[3] then word = 'no_gate' end
local enqueued = tonumber(call('HGET', KEYS[3], 'enqueued') or 0)
if gate[1] and gate[3] then word = 'restoring' end
if word == 'current' and not gate[6] and gate_epoch == options.epoch and options.sequence > enqueued then
  gate[6] = to_text(options.epoch) .. ' ' .. to_text(options.sequence)
end
if gate[1] and gate_epoch < options.epoch then
  word, gate[6] = 'fenced', gate[6] or to_text(options.epoch) .. ' 0'
elseif gate[6] then
  word = 'stopped'
end
-- Again, if it is: an older version of the app may have set its state.
if gate[6] then stop_gate(KEYS[1], string.match(gate[6], '(%d+) (%d+)')) end
for i, message in ipairs(options.messages) do
  local key = KEYS[4 + i]
  local order = read_queued(KEYS[4], string.sub(key, -26))
  -- If the same ticket has made a new order since, that stays.
  if order and tonumber(order.epoch) == message.epoch then
    if order.is_offer then
      -- Its buyer waits in the line that a rebuild restores.
      call('HDEL', KEYS[4], string.sub(key, -26))
    else
      leave_queue(KEYS[4], key, order)
      local state = { status = 'failed', live = false, pay_by = 0, paid_at = 0, reason = options.reason }
      write_state(key, state, now, options.closed_ttl)
    end
  end
  if call('XACK', KEYS[2], options.group, message.stream_id) == 1 then
    call('XDEL', KEYS[2], message.stream_id)
    call('HINCRBY', KEYS[3], 'written', 1)
  end
end
local messages, queued = call('XLEN', KEYS[2]), call('HLEN', KEYS[4])
if word == 'current' then
  for sku in string.gmatch(gate[7] or '', '%S+') do
    local counts = call('HMGET', KEYS[3], 'held:' .. sku, 'pending:' .. sku)
    local held, pending = tonumber(counts[1] or 0), tonumber(counts[2] or 0)
    local left, expected_left = read_stock(sku)
    if held ~= pending and messages + queued == 0 then
      call('HSET', KEYS[3], 'held:' .. sku, pending)
    elseif left and left < expected_left then
      set_stock(sku, expected_left)
    end
  end
  -- An order is counted as enqueued and gets its message in one step. A message that was lost may separate the two.
  if enqueued > 0 then call('HSET', KEYS[3], 'written', math.max(0, enqueued - messages)) end
end
if word == 'newer' or word == 'restoring' then return { word, messages, queued, gate_epoch } end
if gate[6] then return { word, messages, queued, string.match(gate[6], '(%d+) (%d+)') } end
if word == 'current' then return { word, messages, queued, gate[2], gate[5], now - tonumber(gate[4] or 0) } end
return { word, messages, queued }
