-- Functions on a SKU's stock, prepended to every script that corrects it. Not a script of its own.
--
-- Such a script has the gate in KEYS[1] and the counters (stats) in KEYS[3].

-- Returns the stock key of a SKU, the units left, and the total minus the counted units. Returns nothing if the SKU is
-- unlimited or not loaded.
local function read_stock(prefix, sku)
  local stock = prefix .. 'stock:' .. sku
  local left = tonumber(redis.call('GET', stock))
  if not left or left < 0 then return end
  local counts = redis.call('HMGET', KEYS[3], 'held:' .. sku, 'sold:' .. sku)
  local total = tonumber(redis.call('HGET', KEYS[1], 'total:' .. sku) or 0)
  return stock, left, total - tonumber(counts[1] or 0) - tonumber(counts[2] or 0)
end

local function set_stock(stock, left) redis.call('SET', stock, to_text(left), 'KEEPTTL') end
