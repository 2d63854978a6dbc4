-- Brings gate and stock into line with the ledger's description of the sale (C7, C9, G5). Idempotent, and safe while
-- the sale runs: what is left is always total - held - sold, computed here, where nothing can come between.
--
-- KEYS  1 gate, 2 orders (stream), 3 stats, 4 queue, 5 due, 6 winners
-- ARGV  1 key prefix, 2 version, 3 stream group, 4 keep_until (ms), 5 number of gate fields, the gate's fields and
--       values, then for each SKU: its id, total, price, currency, and units held and sold by the ledger (used only
--       where Redis knows nothing of the SKU)
-- Reply done | stale (a newer version is there) | below and the SKU (its total would be below what is held and sold;
--       nothing was changed)

local prefix, version, group, keep_until = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
if tonumber(redis.call('HGET', KEYS[1], 'version') or 0) > version then return { 'stale' } end
local fields = tonumber(ARGV[5])
local first = 6 + fields * 2

local skus, plan = {}, {}
for at = first, #ARGV, 6 do
  local sku, total = ARGV[at], tonumber(ARGV[at + 1])
  local known = redis.call('HMGET', KEYS[3], 'held:' .. sku, 'sold:' .. sku)
  local fresh = redis.call('EXISTS', prefix .. 'stock:' .. sku) == 0 and not known[1] and not known[2]
  local held = fresh and tonumber(ARGV[at + 4]) or tonumber(known[1] or 0)
  local sold = fresh and tonumber(ARGV[at + 5]) or tonumber(known[2] or 0)
  local left = total < 0 and -1 or total - held - sold
  if total >= 0 and left < 0 then return { 'below', sku } end
  skus[#skus + 1] = sku
  plan[#plan + 1] = { sku = sku, total = ARGV[at + 1], price = ARGV[at + 2], currency = ARGV[at + 3], held = held,
    sold = sold, left = left, fresh = fresh }
end

for at = 6, first - 1, 2 do redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 1]) end
redis.call('HSET', KEYS[1], 'version', version, 'keep_until', keep_until, 'skus', table.concat(skus, ' '))
for _, p in ipairs(plan) do
  redis.call('HSET', KEYS[1], 'total:' .. p.sku, p.total, 'price:' .. p.sku, p.price, 'currency:' .. p.sku, p.currency)
  redis.call('SET', prefix .. 'stock:' .. p.sku, string.format('%.0f', p.left), 'PXAT', keep_until)
  redis.call('PEXPIREAT', prefix .. 'holders:' .. p.sku, keep_until)
  if p.fresh then
    redis.call('HSET', KEYS[3], 'held:' .. p.sku, p.held, 'pending:' .. p.sku, p.held, 'sold:' .. p.sku, p.sold)
  end
end
redis.pcall('XGROUP', 'CREATE', KEYS[2], group, '0', 'MKSTREAM')
for at = 1, #KEYS do redis.call('PEXPIREAT', KEYS[at], keep_until) end
return { 'done' }
