-- Puts a failed order back into the queue (D4), if its units are free and the buyer's limit allows it.
--
-- KEYS  1 gate, 2 order, 3 stock, 4 holders, 5 orders (stream), 6 stats
-- ARGV  1 JSON: message (of the order, without its epoch), order {user, sku, quantity, amount, currency, created_at
--       (ms)}
-- Reply queued, now (ms) | same, when it was last requeued (ms, 0 for never; now if it has left the queue) (the order has
--       not failed) | not_ready | limit_reached | sold_out

local now = read_time()
local record = redis.call('HMGET', KEYS[2], 'status', 'requeued_at')
local status = record[1]
if status and status ~= 'failed' then return { 'same', status == 'queued' and (record[2] or 0) or now } end
local options = cjson.decode(ARGV[1])
local order = options.order
local user, sku, quantity = order.user, order.sku, order.quantity
local gate = redis.call('HMGET', KEYS[1], 'per_user', 'epoch')
local per_user = tonumber(gate[1])
local left = tonumber(redis.call('GET', KEYS[3]))
if not per_user or not gate[2] or not left then return { 'not_ready' } end
if tonumber(redis.call('HGET', KEYS[4], user) or 0) + quantity > per_user then return { 'limit_reached' } end
if left >= 0 and left < quantity then return { 'sold_out' } end
if left >= 0 then redis.call('DECRBY', KEYS[3], quantity) end
redis.call('HINCRBY', KEYS[4], user, quantity)
redis.call('HINCRBY', KEYS[6], 'held:' .. sku, quantity)
local sequence = redis.call('HINCRBY', KEYS[6], 'enqueued', 1)
-- A queued order has no state yet, and its record does not expire.
redis.call('DEL', KEYS[2])
order.status, order.epoch, order.sequence = 'queued', gate[2], sequence
write_order(KEYS[2], order)
redis.call('HSET', KEYS[2], 'requeued_at', to_text(now))
redis.call('XADD', KEYS[5], '*', 'o', options.message .. '\t' .. gate[2])
return { 'queued', now }
