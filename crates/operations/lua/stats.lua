-- Reads all counters of an activity at one instant (G2, G4).
--
-- KEYS  1 gate, 2 stats, 3 orders (stream), 4 queued
-- ARGV  1 how much longer the gate must be kept (ms), 2 most queued orders to look at
-- Reply found, now (ms), enqueued, written, rate, stream length, age of its oldest message (ms), queued orders without a
--       message, number of SKUs, then for each SKU: SKU, left, held, pending, sold, total, units of queued orders, how many wait, units left that are to be offered to them; then for
--       each refusal: code or sign_in:<reason>, count | no_gate
--
-- With more queued orders than ARGV 2 it looks at none: then no message is missing, and the units are those that are counted.

local now = read_time()
local gate = redis.call('HMGET', KEYS[1], 'skus', 'keep_until', 'state', 'ends_at')
local is_open = gate[3] == 'published' and now < tonumber(gate[4] or 0)
if not gate[1] or tonumber(gate[2] or now) - now < tonumber(ARGV[1]) then return { 'no_gate' } end
local lost, units = 0
if redis.call('HLEN', KEYS[4]) <= tonumber(ARGV[2]) then
  units = {}
  for _, text in ipairs(redis.call('HVALS', KEYS[4])) do
    local order = parse_queued(text)
    if order and order.status == 'queued' then units[order.sku] = (units[order.sku] or 0) + order.quantity end
    if not has_message(KEYS[3], string.match(text, '^%d+%-%d+') or '0-0') then lost = lost + 1 end
  end
end
local oldest = redis.call('XRANGE', KEYS[3], '-', '+', 'COUNT', 1)[1]
local age = oldest and math.max(0, now - tonumber(string.match(oldest[1], '^%d+'))) or 0
local queue = redis.call('HMGET', KEYS[2], 'enqueued', 'written', 'rate')
local _, sku_count = string.gsub(gate[1], '%S+', '')
local reply = { 'found', now, queue[1], queue[2], queue[3], redis.call('XLEN', KEYS[3]), age, lost, sku_count }
for sku in string.gmatch(gate[1], '%S+') do
  local counts = redis.call('HMGET', KEYS[2], 'left:' .. sku, 'held:' .. sku, 'pending:' .. sku, 'sold:' .. sku,
    'waiting:' .. sku)
  local queued = units and (units[sku] or 0) or (counts[2] or 0) - (counts[3] or 0)
  append(reply, sku, counts[1], counts[2], counts[3], counts[4], redis.call('HGET', KEYS[1], 'total:' .. sku), queued, counts[5] or 0,
    is_open and tonumber(counts[5] or 0) > 0 and counts[1] or 0)
end
local stats = redis.call('HGETALL', KEYS[2])
for i = 1, #stats, 2 do
  local code = string.match(stats[i], '^refused:(.+)$')
  if code then append(reply, code, stats[i + 1]) end
end
return reply
