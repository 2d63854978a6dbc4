-- Reads the gate and the stock (A4, C8). Each instance calls it about once a second, not once per reader.
--
-- KEYS  1 gate, 2 visitors (HyperLogLog)
-- ARGV  1 key prefix of the activity
-- Reply now (ms), state, starts_at, ends_at, start key, visitors, shed, version, then for each SKU: SKU, left, total;
--       only now if there is no gate

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local gate = redis.call('HMGET', KEYS[1], 'state', 'starts_at', 'ends_at', 'start_key', 'shed', 'version', 'skus')
if not gate[1] then return { now } end
local reply = { now, gate[1], gate[2], gate[3], gate[4], redis.call('PFCOUNT', KEYS[2]), gate[5] or '0', gate[6] }
for sku in string.gmatch(gate[7] or '', '%S+') do
  reply[#reply + 1] = sku
  reply[#reply + 1] = redis.call('GET', ARGV[1] .. 'stock:' .. sku)
  reply[#reply + 1] = redis.call('HGET', KEYS[1], 'total:' .. sku)
end
return reply
