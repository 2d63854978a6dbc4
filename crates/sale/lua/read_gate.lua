-- Reads the gate and the stock (A4, C8). Each instance calls it about once a second, not once per reader.
--
-- KEYS  1 gate, 2 visitors (HyperLogLog), 3 stats
-- ARGV  none
-- Reply found, now (ms), state, starts_at, ends_at, start key, "1" while load is shed, version, visitors, announcement, then
--       for each SKU: SKU, left (0 while anybody waits: it belongs to the line, I8), total, how many wait, and how many may |
--       no_gate

local now = read_time()
local gate = redis.call('HMGET', KEYS[1], 'state', 'starts_at', 'ends_at', 'start_key', 'shed', 'version', 'skus',
  'announcement')
if not gate[1] then return { 'no_gate' } end
local reply = { 'found', now, gate[1], gate[2], gate[3], gate[4], gate[5], gate[6], redis.call('PFCOUNT', KEYS[2]),
  gate[8] or '' }
for sku in string.gmatch(gate[7] or '', '%S+') do
  local counts = redis.call('HMGET', KEYS[3], 'left:' .. sku, 'waiting:' .. sku)
  local terms = redis.call('HMGET', KEYS[1], 'total:' .. sku, 'line:' .. sku)
  local waiting = tonumber(counts[2] or 0)
  append(reply, sku, waiting > 0 and '0' or counts[1], terms[1], waiting, terms[2] or 0)
end
return reply
