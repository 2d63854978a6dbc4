-- Sends queued orders again whose messages are gone from the stream (I4): an order leaves `queued` in the step that deletes
-- its message, so any other loss shows here.
--
-- KEYS  1 queued, 2 orders (stream)
-- ARGV  1 cursor ("0" to begin), 2 about how many orders to look at
-- Reply done, next cursor ("0" at the end), orders sent again, then for each order without a message that this version cannot
--       read: ULID, value

local page = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
local fields, resent, unreadable = page[2], 0, {}
for i = 1, #fields, 2 do
  local ulid, text = fields[i], fields[i + 1]
  local id, message = string.match(text, '^(%d+%-%d+) (.*)$')
  if not id or not has_message(KEYS[2], id) then
    if parse_queued(text) then
      redis.call('HSET', KEYS[1], ulid, redis.call('XADD', KEYS[2], '*', 'o', message) .. ' ' .. message)
      resent = resent + 1
    else
      append(unreadable, ulid, text)
    end
  end
end
return { 'done', page[1], resent, unpack(unreadable) }
