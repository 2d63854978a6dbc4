-- Lowers totals before the ledger has them, if the units are neither held nor sold (C7).
--
-- Nothing else of the gate changes: another operator may have changed it since the activity was read. `lowered` is the
-- version that the ledger is about to get. Until the gate has that version too, no warm-up raises the totals, and a
-- sweep finds that the change was not saved.
--
-- KEYS  1 gate, 2 orders (stream), 3 stats
-- ARGV  1 JSON: version, epoch (the ledger's), totals: for each SKU {sku, total}
-- Reply done | stale (the gate has this version or a later one, or a later epoch) | no_gate (no complete gate of this
--       epoch, or no stock: rebuild) | below, SKU (its total would be below what is held and sold; nothing was changed)

local options = cjson.decode(ARGV[1])
local version, ledger_epoch = options.version, options.epoch
local gate = redis.call('HMGET', KEYS[1], 'epoch', 'version', 'restoring', 'lowered', 'stopped')
local epoch = tonumber(gate[1] or 0)
if epoch == 0 or epoch < ledger_epoch or gate[3] or gate[5] then return { 'no_gate' } end
if epoch > ledger_epoch or math.max(tonumber(gate[2] or 0), tonumber(gate[4] or 0)) >= version then
  return { 'stale' }
end
local plan = {}
for _, entry in ipairs(options.totals) do
  local sku = entry.sku
  local before = tonumber(redis.call('HGET', KEYS[1], 'total:' .. sku))
  -- A SKU that the gate does not have yet has sold nothing.
  if before then
    local left, expected_left = read_stock(sku)
    if not left then return { 'no_gate' } end
    -- Another operator may have lowered the total further since the ledger was read.
    local reduction = math.max(0, before - entry.total)
    if expected_left < reduction then return { 'below', sku } end
    plan[#plan + 1] = { left = math.max(0, left - reduction), sku = sku, total = before - reduction }
  end
end
for _, entry in ipairs(plan) do
  redis.call('HSET', KEYS[1], 'total:' .. entry.sku, to_text(entry.total))
  set_stock(entry.sku, entry.left)
end
redis.call('HSET', KEYS[1], 'lowered', version, 'changed_at', to_text(read_time()))
return { 'done' }
