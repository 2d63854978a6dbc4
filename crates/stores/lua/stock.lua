-- Functions on a SKU's stock, prepended to every script that corrects it. Not a script of its own.
--
-- Such a script has the gate in KEYS[1] and the counters and stock (stats) in KEYS[3].

-- Returns the units left of a SKU, and its total minus the counted units. Returns nothing if the SKU is unlimited or not
-- loaded.
local function read_stock(sku)
  local counts = redis.call('HMGET', KEYS[3], 'left:' .. sku, 'held:' .. sku, 'sold:' .. sku)
  local left = tonumber(counts[1])
  if not left or left < 0 then return end
  local total = tonumber(redis.call('HGET', KEYS[1], 'total:' .. sku) or 0)
  return left, total - tonumber(counts[2] or 0) - tonumber(counts[3] or 0)
end

local function set_stock(sku, left) redis.call('HSET', KEYS[3], 'left:' .. sku, to_text(left)) end
