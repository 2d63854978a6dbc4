-- Brings Redis along with moves that the ledger has made, each exactly once (C4; I1, I5). A move that Redis has
-- already seen, or that is older than what Redis knows, changes nothing; one that was read in another epoch, or comes
-- while the sale is being rebuilt, is left to be read again (G5).
--
-- KEYS  1 gate, 2 orders (stream), 3 queue, 4 stats, then one order record for each move
-- ARGV  1 key prefix of the activity, 2 seconds that a closed order is kept, 3 stream group, then for each move
--       epoch, status, live ("1" where it holds units), pay_by (ms), paid_at (ms), reason, stream id ("" for none)
-- Reply one word for each move: moved, same, stale (Redis knows better), absent (no such record in this epoch), fenced

local prefix, keep, group = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local gate = redis.call('HMGET', KEYS[1], 'keep_until', 'epoch', 'restoring')
local keep_until, epoch, restoring = gate[1], gate[2], gate[3]

local follows = {
  queued = 'pending_payment paid cancelled expired failed refunding refunded',
  pending_payment = 'paid cancelled expired failed refunding refunded',
  cancelled = 'paid refunding refunded',
  expired = 'paid refunding refunded',
  failed = '',
  paid = 'refunding refunded',
  refunding = 'refunded',
  refunded = '',
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
  if units ~= 0 then redis.call('HINCRBY', KEYS[4], field .. ':' .. sku, units) end
end

local function hold(sku, user, units)
  local holders = prefix .. 'holders:' .. sku
  if redis.call('HINCRBY', holders, user, units) <= 0 then redis.call('HDEL', holders, user) end
end

-- Returned units go back on sale, never above the total.
local function put_back(sku, units)
  local stock = prefix .. 'stock:' .. sku
  local left = tonumber(redis.call('GET', stock))
  if not left or left < 0 then return end
  local known = redis.call('HMGET', KEYS[4], 'held:' .. sku, 'sold:' .. sku)
  local total = tonumber(redis.call('HGET', KEYS[1], 'total:' .. sku) or 0)
  local most = total - tonumber(known[1] or 0) - tonumber(known[2] or 0)
  redis.call('SET', stock, string.format('%.0f', math.max(left, math.min(left + units, most))), 'KEEPTTL')
end

local replies, touched = {}, {}
for at = 5, #KEYS do
  local base = 3 + (at - 5) * 7
  local read_in, status, live = ARGV[base + 1], ARGV[base + 2], ARGV[base + 3]
  local pay_by, paid_at, reason, entry = ARGV[base + 4], ARGV[base + 5], ARGV[base + 6], ARGV[base + 7]
  local known = redis.call('HMGET', KEYS[at], 'status', 'live', 'sku', 'quantity', 'user', 'epoch')
  local word
  if restoring or (epoch and epoch ~= read_in) then
    word = 'fenced'
  elseif not known[1] or (epoch and epoch ~= known[6]) then
    word = 'absent'
  elseif known[1] == status then
    word = 'same'
  elseif not string.find(' ' .. follows[known[1]] .. ' ', ' ' .. status .. ' ', 1, true) then
    word = 'stale'
  else
    word = 'moved'
    local sku, units, user = known[3], tonumber(known[4]), known[5]
    touched[sku] = true
    local from, to = class(known[1], known[2]), class(status, live)
    if known[1] == 'pending_payment' then count('pending', sku, -units) end
    if status == 'pending_payment' then count('pending', sku, units) end
    if from ~= to then
      if from ~= 'out' then count(from, sku, -units) end
      if to ~= 'out' then count(to, sku, units) end
      if to == 'out' then
        hold(sku, user, -units)
        put_back(sku, units)
      elseif from == 'out' then
        hold(sku, user, units)
        local stock = prefix .. 'stock:' .. sku
        if tonumber(redis.call('GET', stock) or 0) >= units then redis.call('DECRBY', stock, units) end
      end
    end
    redis.call('HSET', KEYS[at], 'status', status, 'live', live, 'pay_by', pay_by, 'paid_at', paid_at, 'reason', reason)
    if closed[status] then
      redis.call('EXPIRE', KEYS[at], keep)
    elseif keep_until then
      redis.call('PEXPIREAT', KEYS[at], keep_until)
    end
  end
  if word ~= 'fenced' and entry ~= '' and redis.call('XACK', KEYS[2], group, entry) == 1 then
    redis.call('XDEL', KEYS[2], entry)
    redis.call('HINCRBY', KEYS[3], 'written', 1)
  end
  replies[#replies + 1] = word
end

-- What the hot path creates has its time to live set here, off the hot path.
if keep_until then
  for sku in pairs(touched) do redis.call('PEXPIREAT', prefix .. 'holders:' .. sku, keep_until) end
  for _, key in ipairs({ KEYS[3], KEYS[4], prefix .. 'winners' }) do
    redis.call('PEXPIREAT', key, keep_until)
  end
end
return replies
