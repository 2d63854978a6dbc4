-- Puts a failed order back into the queue (D4), if its units are free and the buyer's limit allows it.
--
-- KEYS  1 gate, 2 order, 3 stats, 4 holders, 5 orders (stream), 6 queued
-- ARGV  1 JSON: message (of the dead letter), order {user, sku, quantity, amount, currency, created_at (ms)}
-- Reply queued | requeued (it was queued or written since it became this dead letter) | same (it is about to
--       fail) | not_ready | limit_reached | sold_out

local ulid = string.sub(KEYS[2], -26)
local queued = redis.call('HGET', KEYS[6], ulid)
local options = cjson.decode(ARGV[1])
if queued and string.match(queued, ' (.*)$') == options.message then return { 'same' } end
local status = redis.call('HGET', KEYS[2], 'status')
if queued or (status and status ~= 'failed') then return { 'requeued' } end
local order = options.order
local sku, quantity, holder = order.sku, order.quantity, order.sku .. ':' .. order.user
local gate = redis.call('HMGET', KEYS[1], 'per_user', 'epoch')
local per_user = tonumber(gate[1])
local left = tonumber(redis.call('HGET', KEYS[3], 'left:' .. sku))
if not per_user or not gate[2] or not left then return { 'not_ready' } end
if tonumber(redis.call('HGET', KEYS[4], holder) or 0) + quantity > per_user then return { 'limit_reached' } end
-- What came back belongs to the line (I8).
if tonumber(redis.call('HGET', KEYS[3], 'waiting:' .. sku) or 0) > 0 then return { 'sold_out' } end
if left >= 0 and left < quantity then return { 'sold_out' } end
local sequence = tonumber(redis.call('HGET', KEYS[3], 'enqueued') or 0) + 1
queue_order(KEYS[6], KEYS[5], ulid, order.user, sku, quantity, to_text(order.amount), order.currency,
  to_text(order.created_at), gate[2], to_text(sequence), '0', '0')
redis.call('DEL', KEYS[2])
redis.call('HINCRBY', KEYS[4], holder, quantity)
redis.call('HINCRBY', KEYS[3], 'held:' .. sku, quantity)
redis.call('HSET', KEYS[3], 'enqueued', to_text(sequence), 'left:' .. sku, to_text(left < 0 and -1 or left - quantity))
return { 'queued' }
