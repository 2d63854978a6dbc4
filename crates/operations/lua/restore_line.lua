-- Puts a page of the ledger's entries back into the line, in a rebuild (G5; H1). A repeated page changes nothing.
--
-- KEYS  1 gate, 2 stats, 3 entries, then the line of each entry's SKU
-- ARGV  1 JSON: epoch (of the gate), last (the end of this page), entries: for each {user, ulid, sku, amount,
--       currency, created_at, epoch, sequence, state, ended_at}
-- Reply restored | fenced (the gate has another epoch, or is complete)

local options = cjson.decode(ARGV[1])
local gate = redis.call('HMGET', KEYS[1], 'epoch', 'restoring')
if tonumber(gate[1]) ~= options.epoch or not gate[2] then return { 'fenced' } end
local now = read_time()
for i, entry in ipairs(options.entries) do
  local user = entry.user
  -- The ledger's clock is another one.
  if entry.ended_at ~= '' then entry.ended_at = to_text(now) end
  local list = read_entries(KEYS[3], user)
  local known = find_entry(list, entry.ulid)
  if not known then
    list[#list + 1] = entry
    write_entries(KEYS[3], user, list, now)
  end
  -- Who has left since another request restored the page has left.
  if (known or entry).state == 'waiting' then enter_line(KEYS[3 + i], KEYS[2], user, entry) end
end
redis.call('HSET', KEYS[1], 'line_after', options.last)
return { 'restored' }
