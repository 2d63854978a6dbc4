-- Marks the order writer idle, unless an order arrived in the meantime: no doorbell would ring for that one (D2).
--
-- KEYS  1 orders (stream), 2 stats
-- ARGV  1 stream group, 2 orders written per second ("" if not measured)
-- Reply rested | more (the stream has new orders)

if ARGV[2] ~= '' then redis.call('HSET', KEYS[2], 'rate', ARGV[2]) end
local stream = redis.pcall('XINFO', 'STREAM', KEYS[1])
local groups = redis.pcall('XINFO', 'GROUPS', KEYS[1])
if stream.err or groups.err then return { 'rested' } end
local function field(reply, name)
  for i = 1, #reply, 2 do
    if reply[i] == name then return reply[i + 1] end
  end
end
for _, group in ipairs(groups) do
  if field(group, 'name') == ARGV[1] and field(group, 'last-delivered-id') ~= field(stream, 'last-generated-id') then
    redis.call('HSET', KEYS[2], 'awake_until', to_text(read_time() + 2000))
    return { 'more' }
  end
end
redis.call('HDEL', KEYS[2], 'awake_until')
return { 'rested' }
