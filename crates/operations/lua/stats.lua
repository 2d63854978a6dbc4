-- Reads all counters of an activity at one instant (G2, G4).
--
-- KEYS  1 gate, 2 stats, 3 orders (stream)
-- ARGV  1 key prefix, 2 how much longer the gate must be kept (ms)
-- Reply found, now (ms), enqueued, written, rate, stream length, number of SKUs, then for each SKU: SKU, left, held,
--       pending, sold, total; then for each refusal: code or sign_in:<reason>, count | no_gate

local now = read_time()
local gate = redis.call('HMGET', KEYS[1], 'skus', 'keep_until')
local skus = gate[1]
if not skus or tonumber(gate[2] or now) - now < tonumber(ARGV[2]) then return { 'no_gate' } end
local queue = redis.call('HMGET', KEYS[2], 'enqueued', 'written', 'rate')
local reply = { now, tonumber(queue[1] or 0), tonumber(queue[2] or 0), tonumber(queue[3] or 0),
  redis.call('XLEN', KEYS[3]), 0 }
local sku_count = 0
for sku in string.gmatch(skus, '%S+') do
  sku_count = sku_count + 1
  local counts = redis.call('HMGET', KEYS[2], 'held:' .. sku, 'pending:' .. sku, 'sold:' .. sku)
  reply[#reply + 1] = sku
  reply[#reply + 1] = redis.call('GET', ARGV[1] .. 'stock:' .. sku)
  reply[#reply + 1] = tonumber(counts[1] or 0)
  reply[#reply + 1] = tonumber(counts[2] or 0)
  reply[#reply + 1] = tonumber(counts[3] or 0)
  reply[#reply + 1] = redis.call('HGET', KEYS[1], 'total:' .. sku)
end
reply[6] = sku_count
local stats = redis.call('HGETALL', KEYS[2])
for i = 1, #stats, 2 do
  local code = string.match(stats[i], '^refused:(.+)$')
  if code then
    reply[#reply + 1] = code
    reply[#reply + 1] = tonumber(stats[i + 1])
  end
end
return reply
