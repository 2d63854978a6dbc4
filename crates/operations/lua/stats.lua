-- Reads all counters of an activity at one instant (G2, G4).
--
-- KEYS  1 gate, 2 stats, 3 orders (stream)
-- ARGV  1 key prefix, 2 how much longer the gate must be kept (ms)
-- Reply found, now (ms), enqueued, written, rate, stream length, number of SKUs, then for each SKU: SKU, left, held,
--       pending, sold, total; then for each refusal: code or sign_in:<reason>, count | no_gate

local now = read_time()
local gate = redis.call('HMGET', KEYS[1], 'skus', 'keep_until')
if not gate[1] or tonumber(gate[2] or now) - now < tonumber(ARGV[2]) then return { 'no_gate' } end
local queue = redis.call('HMGET', KEYS[2], 'enqueued', 'written', 'rate')
local _, sku_count = string.gsub(gate[1], '%S+', '')
local reply = { 'found', now, queue[1], queue[2], queue[3], redis.call('XLEN', KEYS[3]), sku_count }
for sku in string.gmatch(gate[1], '%S+') do
  local counts = redis.call('HMGET', KEYS[2], 'held:' .. sku, 'pending:' .. sku, 'sold:' .. sku)
  local left, total = redis.call('GET', ARGV[1] .. 'stock:' .. sku), redis.call('HGET', KEYS[1], 'total:' .. sku)
  append(reply, sku, left, counts[1], counts[2], counts[3], total)
end
local stats = redis.call('HGETALL', KEYS[2])
for i = 1, #stats, 2 do
  local code = string.match(stats[i], '^refused:(.+)$')
  if code then append(reply, code, stats[i + 1]) end
end
return reply
