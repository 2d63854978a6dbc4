-- Reads those orders of a user's tickets that the ledger does not have: queued and failed ones (D6).
--
-- KEYS  for each activity: tickets of the user, stats
-- ARGV  none
-- Reply found, then for each order: position of its activity (from 0), ULID, then the values of read_order

local reply = { 'found' }
for key = 1, #KEYS, 2 do
  local prefix = string.sub(KEYS[key + 1], 1, -6)
  for _, ulid in ipairs(redis.call('ZRANGE', KEYS[key], 0, -1)) do
    local name = prefix .. 'order:' .. ulid
    -- Most tickets have no such order, and a whole record takes three times as long.
    local status = redis.call('HGET', name, 'status')
    if status == 'queued' or status == 'failed' then
      append(reply, (key - 1) / 2, ulid, unpack(read_order(name, KEYS[key + 1])))
    end
  end
end
return reply
