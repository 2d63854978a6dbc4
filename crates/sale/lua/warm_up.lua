-- Updates gate and stock from the activity's spec in the ledger (C7, C9).
--
-- Idempotent, and safe while the activity is open: left is computed here as total - held - sold, and no other command
-- can run in between. A gate that is missing, stopped or of an older epoch is only created by a rebuild (G5), which counts
-- what the ledger holds.
--
-- KEYS  1 gate, 2 orders (stream), 3 stats, 4 index, 5 holders, 6 queued, 7 entries, then the line of each SKU
-- ARGV  1 JSON: version, group (of the stream), ends_at (ms), retention_ms (after the end), epoch (the ledger's), mode, gate {field: value}, skus: for each {sku, total, price, currency, line (how many may wait)}
-- Mode  "replace" updates a gate of this version or an older one; "if_older" only an older one, so that only the first
--       warm-up to this version applies; "rebuild" as "replace", also while the gate is marked `restoring`
-- Reply done | stale (a newer version or epoch is there; for "if_older", also this version) | no_gate (no complete gate
--       of this epoch: rebuild)

local options = cjson.decode(ARGV[1])
local version, mode = options.version, options.mode
local now = read_time()
-- Even if the end is long past, keys are kept for the full retention from now: orders may wait in the stream, and units
-- may be held.
local keep_until = to_text(math.max(options.ends_at, now) + options.retention_ms)
local gate = redis.call('HMGET', KEYS[1], 'epoch', 'version', 'restoring', 'lowered', 'stopped')
local epoch = tonumber(gate[1] or 0)
local being_rebuilt = gate[3] and mode ~= 'rebuild'
if epoch == 0 or epoch < options.epoch or being_rebuilt or gate[5] then return { 'no_gate' } end
local gate_version = tonumber(gate[2] or 0)
local superseded = gate_version > version or (gate_version == version and mode == 'if_older')
if epoch > options.epoch or superseded then return { 'stale' } end
-- Totals that lower_totals.lua lowered for a later version stay.
local keeps_lowered = tonumber(gate[4] or 0) > version

local skus, plan = {}, {}
for _, entry in ipairs(options.skus) do
  local sku, total = entry.sku, entry.total
  if keeps_lowered then total = math.min(total, tonumber(redis.call('HGET', KEYS[1], 'total:' .. sku) or total)) end
  local counts = redis.call('HMGET', KEYS[3], 'held:' .. sku, 'sold:' .. sku)
  local counted = tonumber(counts[1] or 0) + tonumber(counts[2] or 0)
  -- Redis may count units that a restored ledger lost. Then nothing is left, and the operator's other changes are applied.
  local left = total < 0 and -1 or math.max(0, total - counted)
  skus[#skus + 1] = sku
  plan[#plan + 1] = { sku = sku, total = total, price = entry.price, currency = entry.currency, line = entry.line, left = left }
end

for field, value in pairs(options.gate) do redis.call('HSET', KEYS[1], field, value) end
redis.call('HSET', KEYS[1], 'version', version, 'keep_until', keep_until, 'skus', table.concat(skus, ' '),
  'changed_at', to_text(now))
if not keeps_lowered then redis.call('HDEL', KEYS[1], 'lowered') end
for _, entry in ipairs(plan) do
  redis.call('HSET', KEYS[1], 'total:' .. entry.sku, entry.total, 'price:' .. entry.sku, entry.price,
    'currency:' .. entry.sku, entry.currency)
  if entry.line > 0 then
    redis.call('HSET', KEYS[1], 'line:' .. entry.sku, entry.line)
  elseif tonumber(redis.call('HGET', KEYS[3], 'waiting:' .. entry.sku) or 0) == 0 then
    -- Who joined in this moment is served.
    redis.call('HDEL', KEYS[1], 'line:' .. entry.sku)
  end
  -- During a rebuild nothing is on sale: finish.lua sets the stock.
  if not gate[3] then set_stock(entry.sku, entry.left) end
end
redis.pcall('XGROUP', 'CREATE', KEYS[2], options.group, '0', 'MKSTREAM')
for i = 1, #KEYS do redis.call('PEXPIREAT', KEYS[i], keep_until) end
return { 'done' }
