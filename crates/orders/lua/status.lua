-- Reads one order and its place in the queue (D5, D7).
--
-- KEYS  1 order, 2 stats, 3 gate, 4 queued, 5 entries
-- ARGV  1 user, or empty: who waits in the line is found by their name
-- Reply found, the values of read_order, now (ms) | entry, the values of read_entry, ms to pay an offer, now (it has no order) |
--       absent, now (no record, and a complete gate: Redis has lost no
--       order, so one whose record has not expired does not exist) | unknown, now (neither record nor complete gate)

local now = read_time()
local order = read_order(KEYS[4], KEYS[2], KEYS[1])
if not order[1] then
  local entry = ARGV[1] ~= '' and read_entry(KEYS[3], KEYS[5], ARGV[1], string.sub(KEYS[1], -26), now)
  if entry then
    append(entry, redis.call('HGET', KEYS[3], 'offer_ms') or 0, now)
    table.insert(entry, 1, 'entry')
    return entry
  end
  local gate = redis.call('HMGET', KEYS[3], 'epoch', 'restoring', 'stopped')
  local is_queued = redis.call('HEXISTS', KEYS[4], string.sub(KEYS[1], -26)) == 1
  return { gate[1] and not gate[2] and not gate[3] and not is_queued and 'absent' or 'unknown', now }
end
table.insert(order, 1, 'found')
order[#order + 1] = now
return order
