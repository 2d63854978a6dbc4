-- Completes a rebuild (G5): sets the stock of each SKU to its total minus what the restored orders hold, and opens the
-- gate. A repeated call changes nothing.
--
-- KEYS  1 gate, 2 stats, 3 orders (stream), 4 index, 5 holders, 6 entries, then the line of each SKU
-- ARGV  1 epoch of this rebuild, 2 number of the last order restored, 3 up to where the line is restored
-- Reply done, number of orders restored | fenced (a later rebuild has started, or Redis has lost what was restored: continue)

local gate = redis.call('HMGET', KEYS[1], 'epoch', 'restoring', 'keep_until', 'skus', 'restored', 'restored_after', 'line_after')
if gate[1] ~= ARGV[1] then return { 'fenced' } end
local done = { 'done', tonumber(gate[5] or 0) }
if not gate[2] then return done end
if (gate[6] or '') ~= ARGV[2] or (gate[7] or '') ~= ARGV[3] then return { 'fenced' } end
for sku in string.gmatch(gate[4] or '', '%S+') do
  local total = tonumber(redis.call('HGET', KEYS[1], 'total:' .. sku))
  local counts = redis.call('HMGET', KEYS[2], 'held:' .. sku, 'sold:' .. sku)
  local left = total < 0 and -1 or math.max(0, total - tonumber(counts[1] or 0) - tonumber(counts[2] or 0))
  redis.call('HSET', KEYS[2], 'left:' .. sku, to_text(left))
end
redis.call('HDEL', KEYS[1], 'restoring', 'restored_after', 'to_restore', 'line_after')
-- A key that does not exist gets no expiry: refusals would create the counters without one.
redis.call('HSETNX', KEYS[2], 'enqueued', '0')
for i = 1, #KEYS do redis.call('PEXPIREAT', KEYS[i], gate[3]) end
return done
