-- Finds the SKUs with units left that somebody waits for (I8).
--
-- KEYS  1 gate, 2 stats
-- ARGV  none
-- Reply found, then each SKU and its units left

local reply = { 'found' }
for sku in string.gmatch(redis.call('HGET', KEYS[1], 'skus') or '', '%S+') do
  local counts = redis.call('HMGET', KEYS[2], 'left:' .. sku, 'waiting:' .. sku)
  if tonumber(counts[1] or 0) > 0 and tonumber(counts[2] or 0) > 0 then append(reply, sku, counts[1]) end
end
return reply
