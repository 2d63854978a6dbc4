-- Applies transitions of the ledger to Redis, each exactly once (C4; I1, I5).
--
-- A transition that Redis has applied before, or that is older than its state, changes nothing. One that was read in
-- another epoch, or that arrives during a rebuild, must be read again (G5).
--
-- KEYS  1 gate, 2 orders (stream), 3 stats, 4 queued, 5 holders, 6 index, 7 limit in all, 8 entries, then one order record
--       for each transition
-- ARGV  1 JSON: closed_ttl (of a closed order, seconds), group (of the stream), runs: for each run of transitions to the
--       same state {epoch, status, live, pay_by (ms), paid_at (ms), reason, refunded, stream_ids (one for each transition, "" for
--       none)}
-- Reply synced, or free (units came back that somebody waits for: offer them), then for each transition applied, already_applied, recent (applied since less than SYNCED_MS), stale
--       (Redis has a later state), no_record (of this epoch) or fenced

local call = redis.call
local options = cjson.decode(ARGV[1])
local queued, holders = KEYS[4], KEYS[5]
-- Text, as all numbers that are written into each record: converting them for each order takes longer.
local now = to_text(read_time())
-- A state that Redis has had for so long survives a crash with `appendfsync everysec`, which may lose up to 2 s.
local SYNCED_MS = 3000
local gate = call('HMGET', KEYS[1], 'keep_until', 'epoch', 'restoring', 'limit_all')
local keep_until, epoch, restoring, limit_all = gate[1], tonumber(gate[2]), gate[3], gate[4]

local function set_of(words)
  local set = {}
  for word in string.gmatch(words, '%S+') do set[word] = true end
  return set
end
-- Redis may have missed transitions in between, so every later status is allowed. The single transitions are in
-- crates/domain/src/order.rs; a unit test compares this table with them.
local allowed_next = {
  queued = set_of('pending_payment paid cancelled expired failed refunding refunded'),
  pending_payment = set_of('paid cancelled expired refunding refunded'),
  cancelled = set_of('paid refunding refunded'),
  expired = set_of('paid refunding refunded'),
  failed = set_of(''),
  paid = set_of('refunding refunded'),
  refunding = set_of('refunded'),
  refunded = set_of(''),
}

-- Where an order's units are counted: held (not paid yet), sold, or out (returned).
local function unit_state(status, live)
  if status == 'queued' or status == 'pending_payment' then return 'held' end
  if status == 'paid' then return 'sold' end
  if live and (status == 'refunding' or status == 'refunded') then return 'sold' end
  return 'out'
end

local function add_stat(field, sku, units)
  if units ~= 0 then call('HINCRBY', KEYS[3], field .. ':' .. sku, units) end
end

local function add_to_holder(sku, user, units)
  local holder = sku .. ':' .. user
  if call('HINCRBY', holders, holder, units) <= 0 then call('HDEL', holders, holder) end
end

-- Changes that a batch shares are made once at its end: `pending` by SKU, the messages to acknowledge, and the ULIDs of
-- the orders that leave the queue, which no message shows any more.
local reply, pending, stream_ids, indexed = { 'synced' }, {}, {}, {}

-- Returns units to the stock, up to total - held - sold. The counters no longer include this order.
local function return_units(sku, units)
  local left, expected_left = read_stock(sku)
  if left then set_stock(sku, math.max(left, math.min(left + units, expected_left))) end
  if tonumber(call('HGET', KEYS[3], 'waiting:' .. sku) or 0) > 0 then reply[1] = 'free' end
end

-- Returns an order, without a status if there is none.
local function read(key)
  local order = read_queued(queued, string.sub(key, -26))
  if order then return order end
  local record = call('HMGET', key, 'status', 'live', 'sku', 'quantity', 'user', 'epoch', 'pay_by', 'synced', 'refunded')
  return { status = record[1], live = record[2] == '1', sku = record[3], quantity = record[4], user = record[5],
    epoch = record[6], pay_by = record[7], synced_at = record[8], refunded = record[9] }
end

local function sync(key, state, stream_id)
  local status, order = state.status, read(key)
  -- Without a gate there is no epoch to compare.
  if restoring or (epoch and epoch ~= state.epoch) then return 'fenced' end
  if not order.status or (epoch and epoch ~= tonumber(order.epoch)) then return 'no_record' end
  if order.status == status then
    -- Starting a payment moves the deadline, always to a later time.
    if status == 'pending_payment' and tonumber(state.pay_by) > tonumber(order.pay_by or 0) then
      call('HSET', key, 'pay_by', state.pay_by, 'synced', now)
      return 'applied'
    end
    -- Parts of its payment are only added.
    if state.refunded > tonumber(order.refunded or 0) then
      call('HSET', key, 'refunded', to_text(state.refunded), 'synced', now)
      return 'applied'
    end
    return now - tonumber(order.synced_at or 0) < SYNCED_MS and 'recent' or 'already_applied'
  end
  if not allowed_next[order.status][status] then return 'stale' end
  -- It failed with an earlier message, and was requeued since.
  if status == 'failed' and order.message and order.message ~= stream_id then return 'stale' end
  local sku, units, user = order.sku, tonumber(order.quantity), order.user
  local from, to = unit_state(order.status, order.live), unit_state(status, state.live)
  if order.status == 'queued' then
    leave_queue(queued, key, order)
    indexed[#indexed + 1] = string.sub(key, -26)
    if order.message ~= stream_id then stream_ids[#stream_ids + 1] = order.message end
    if order.is_offer then
      local list = read_entries(KEYS[8], user)
      local entry = find_entry(list, string.sub(key, -26))
      if entry then entry.ended_at = '0' end
      write_entries(KEYS[8], user, list, tonumber(now))
    end
  end
  pending[sku] = pending[sku] or 0
  if order.status == 'pending_payment' then pending[sku] = pending[sku] - units end
  if status == 'pending_payment' then pending[sku] = pending[sku] + units end
  if from ~= to then
    if from ~= 'out' then add_stat(from, sku, -units) end
    if to ~= 'out' then add_stat(to, sku, units) end
    if to == 'out' then
      add_to_holder(sku, user, -units)
      return_units(sku, units)
      -- Who reserves and cancels in turn would use the limit in all up for everybody.
      if status == 'cancelled' and limit_all then
        give_back(limit_all, KEYS[7], tonumber(call('HGET', key, 'created')), tonumber(now))
      end
    elseif from == 'out' then
      add_to_holder(sku, user, units)
      -- An unlimited stock stays -1, and one with too few units stays as it is, so that it does not become negative:
      -- the counters exceed the total then, and `return_units` returns fewer units later.
      local left = read_stock(sku)
      if left and left >= units then set_stock(sku, left - units) end
    end
  end
  write_state(key, state, now, options.closed_ttl, keep_until)
  return 'applied'
end

local key_index = 8
for _, run in ipairs(options.runs) do
  run.pay_by, run.paid_at = to_text(run.pay_by), to_text(run.paid_at)
  for _, stream_id in ipairs(run.stream_ids) do
    key_index = key_index + 1
    local word = sync(KEYS[key_index], run, stream_id)
    if word ~= 'fenced' and stream_id ~= '' then stream_ids[#stream_ids + 1] = stream_id end
    reply[#reply + 1] = word
  end
end

for sku, units in pairs(pending) do add_stat('pending', sku, units) end
if indexed[1] then call('APPEND', KEYS[6], table.concat(indexed)) end
if stream_ids[1] then
  call('XACK', KEYS[2], options.group, unpack(stream_ids))
  -- XDEL counts a message once, even if two writers acknowledge it.
  local written = call('XDEL', KEYS[2], unpack(stream_ids))
  if written > 0 then call('HINCRBY', KEYS[3], 'written', written) end
end

-- Keys that the hot path creates get their TTL here, to keep the hot path short.
if keep_until then
  for _, i in ipairs({ 2, 3, 4, 5, 6, 8 }) do call('PEXPIREAT', KEYS[i], keep_until) end
end
return reply
