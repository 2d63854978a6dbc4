-- Brings Redis along with moves that the ledger has made, each exactly once (C4; I1, I5). A move that Redis has
-- already seen, or that is older than what Redis knows, changes nothing; one that was read in another epoch, or comes
-- while the sale is being rebuilt, is left to be read again (G5).
--
-- KEYS  1 gate, 2 orders (stream), 3 queue, 4 stats, then one order record for each move
-- ARGV  1 key prefix of the activity, 2 seconds that a closed order is kept, 3 stream group, then for each run of moves
--       to the same: how many, epoch, status, live ("1" where it holds units), pay_by (ms), paid_at (ms), reason, and
--       the stream id of each ("" for none)
-- Reply one word for each move, with spaces between: moved, same, stale (Redis knows better), absent (no such record in
--       this epoch), fenced

local call = redis.call
local prefix, keep, group = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local gate = call('HMGET', KEYS[1], 'keep_until', 'epoch', 'restoring')
local keep_until, epoch, restoring = gate[1], gate[2], gate[3]

local function any(words)
  local set = {}
  for word in string.gmatch(words, '%S+') do set[word] = true end
  return set
end
local follows = {
  queued = any('pending_payment paid cancelled expired failed refunding refunded'),
  pending_payment = any('paid cancelled expired refunding refunded'),
  cancelled = any('paid refunding refunded'),
  expired = any('paid refunding refunded'),
  failed = any(''),
  paid = any('refunding refunded'),
  refunding = any('refunded'),
  refunded = any(''),
}
local closed = { cancelled = true, expired = true, failed = true, refunded = true }

-- Where an order's units are: held (not yet paid), sold, or out (returned).
local function class(status, live)
  if status == 'queued' or status == 'pending_payment' then return 'held' end
  if status == 'paid' then return 'sold' end
  if live == '1' and (status == 'refunding' or status == 'refunded') then return 'sold' end
  return 'out'
end

local function count(field, sku, units)
  if units ~= 0 then call('HINCRBY', KEYS[4], field .. ':' .. sku, units) end
end

local function hold(sku, user, units)
  local holders = prefix .. 'holders:' .. sku
  if call('HINCRBY', holders, user, units) <= 0 then call('HDEL', holders, user) end
end

-- The key of what is left of a SKU, that number, and what the counted units leave of the total; nothing where it is
-- unlimited or not ready.
local function stock_of(sku)
  local stock = prefix .. 'stock:' .. sku
  local left = tonumber(call('GET', stock))
  if not left or left < 0 then return end
  local known = call('HMGET', KEYS[4], 'held:' .. sku, 'sold:' .. sku)
  local total = tonumber(call('HGET', KEYS[1], 'total:' .. sku) or 0)
  return stock, left, total - tonumber(known[1] or 0) - tonumber(known[2] or 0)
end

local function set(stock, left) call('SET', stock, string.format('%.0f', left), 'KEEPTTL') end

-- Returned units go back on sale, never above the total.
local function put_back(sku, units)
  local stock, left, room = stock_of(sku)
  if stock then set(stock, math.max(left, math.min(left + units, room))) end
end

-- The ledger had no room: Redis has forgotten units that somebody holds, or shows more than there are. They count as
-- sold, and nobody is sold them again; a rebuild counts them anew (G4).
local function withhold(sku, units)
  local stock, left, room = stock_of(sku)
  if not stock then return end
  count('sold', sku, math.min(units, math.max(0, room)))
  set(stock, math.min(left, math.max(0, room - units)))
end

-- What many orders of a batch change is changed once: `pending` by SKU, and the messages that are done.
local replies, pending, done = {}, {}, {}

local function settle(key, read_in, status, live, pay_by, paid_at, reason)
  local known = call('HMGET', key, 'status', 'live', 'sku', 'quantity', 'user', 'epoch')
  if restoring or (epoch and epoch ~= read_in) then return 'fenced' end
  if not known[1] or (epoch and epoch ~= known[6]) then return 'absent' end
  if known[1] == status then return 'same' end
  if not follows[known[1]][status] then return 'stale' end
  local sku, units, user = known[3], tonumber(known[4]), known[5]
  local from, to = class(known[1], known[2]), class(status, live)
  pending[sku] = pending[sku] or 0
  if known[1] == 'pending_payment' then pending[sku] = pending[sku] - units end
  if status == 'pending_payment' then pending[sku] = pending[sku] + units end
  if from ~= to then
    if from ~= 'out' then count(from, sku, -units) end
    if to ~= 'out' then count(to, sku, units) end
    if to == 'out' then
      hold(sku, user, -units)
      if reason == 'no_room_in_ledger' then withhold(sku, units) else put_back(sku, units) end
    elseif from == 'out' then
      hold(sku, user, units)
      local stock = prefix .. 'stock:' .. sku
      if tonumber(call('GET', stock) or 0) >= units then call('DECRBY', stock, units) end
    end
  end
  if status == 'pending_payment' then
    -- It was queued: nobody has paid it, and there is no reason yet.
    call('HSET', key, 'status', status, 'live', live, 'pay_by', pay_by)
  else
    call('HSET', key, 'status', status, 'live', live, 'pay_by', pay_by, 'paid_at', paid_at, 'reason', reason)
  end
  if closed[status] then
    call('EXPIRE', key, keep)
  elseif keep_until then
    call('PEXPIREAT', key, keep_until)
  end
  return 'moved'
end

local key, arg = 5, 4
while key <= #KEYS do
  for at = arg + 7, arg + 6 + ARGV[arg] do
    local word = settle(KEYS[key], unpack(ARGV, arg + 1, arg + 6))
    if word ~= 'fenced' and ARGV[at] ~= '' then done[#done + 1] = ARGV[at] end
    replies[#replies + 1] = word
    key = key + 1
  end
  arg = arg + 7 + ARGV[arg]
end

for sku, units in pairs(pending) do count('pending', sku, units) end
if done[1] then
  call('XACK', KEYS[2], group, unpack(done))
  -- A message leaves the stream once, whoever acknowledges it.
  local written = call('XDEL', KEYS[2], unpack(done))
  if written > 0 then call('HINCRBY', KEYS[3], 'written', written) end
end

-- What the hot path creates has its time to live set here, off the hot path.
if keep_until then
  for sku in pairs(pending) do call('PEXPIREAT', prefix .. 'holders:' .. sku, keep_until) end
  for _, key in ipairs({ KEYS[3], KEYS[4], prefix .. 'winners' }) do
    call('PEXPIREAT', key, keep_until)
  end
end
return { table.concat(replies, ' ') }
