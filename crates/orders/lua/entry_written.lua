-- Acknowledges messages of the line whose entries are in the ledger (H1).
--
-- KEYS  1 orders (stream), 2 stats, 3 queued, 4 gate, 5 entries, then the line of each message's SKU
-- ARGV  1 JSON: group (of the stream), messages: for each {ulid, stream_id}
-- Reply done

local options = cjson.decode(ARGV[1])
local keep_until = redis.call('HGET', KEYS[4], 'keep_until')
for i = 5, keep_until and #KEYS or 0 do redis.call('PEXPIREAT', KEYS[i], keep_until) end
for _, message in ipairs(options.messages) do
  redis.call('XACK', KEYS[1], options.group, message.stream_id)
  redis.call('HINCRBY', KEYS[2], 'written', redis.call('XDEL', KEYS[1], message.stream_id))
  -- A later message of the entry is not written yet.
  local text = redis.call('HGET', KEYS[3], message.ulid)
  if text and string.match(text, '^%S+') == message.stream_id then redis.call('HDEL', KEYS[3], message.ulid) end
end
return { 'done' }
