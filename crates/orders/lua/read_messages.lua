-- Delivers messages of the stream to a writer (D2, D4).
--
-- KEYS  1 orders (stream)
-- ARGV  1 stream group, 2 consumer, 3 most messages, 4 "" for new ones, else for messages that were delivered at least so
--       many ms ago and never acknowledged
-- Reply found, then for each message: its id, and its order (without the field `o`, all fields)

local group, consumer, count, idle_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local function deliver()
  if idle_ms ~= '' then
    return redis.pcall('XAUTOCLAIM', KEYS[1], group, consumer, idle_ms, '0', 'COUNT', count)
  end
  return redis.pcall('XREADGROUP', 'GROUP', group, consumer, 'COUNT', count, 'STREAMS', KEYS[1], '>')
end
local delivered = deliver()
if delivered and delivered.err and string.find(delivered.err, 'NOGROUP', 1, true) then
  -- The stream was lost and started anew. Without a stream do not create one: nothing would delete it again.
  if redis.call('EXISTS', KEYS[1]) == 0 then return { 'found' } end
  redis.call('XGROUP', 'CREATE', KEYS[1], group, '0')
  delivered = deliver()
end
if delivered and delivered.err then return delivered end
local entries = delivered and (idle_ms ~= '' and delivered[2] or delivered[1][2]) or {}
local reply = { 'found' }
for _, entry in ipairs(entries) do
  local fields, order = entry[2], nil
  for i = 1, #fields, 2 do
    if fields[i] == 'o' then order = fields[i + 1] end
  end
  append(reply, entry[1], order or table.concat(fields, ' '))
end
return reply
