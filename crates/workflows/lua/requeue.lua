-- Puts a failed order back into the queue (D4), if its units are free and the buyer's limit allows it.
--
-- KEYS  1 gate, 2 order, 3 stock, 4 holders, 5 orders (stream), 6 queue, 7 stats, 8 winners
-- ARGV  1 the order's message without its epoch, 2 user, 3 SKU, 4 quantity, 5 amount, 6 currency, 7 created_at (ms),
--       8 number of the ticket's bit in `winners`
-- Reply queued | same (the order has not failed) | not_ready | limit_reached | sold_out

local status = redis.call('HGET', KEYS[2], 'status')
if status and status ~= 'failed' then return { 'same' } end
local user, sku, quantity = ARGV[2], ARGV[3], tonumber(ARGV[4])
local gate = redis.call('HMGET', KEYS[1], 'per_user', 'epoch')
local per_user = tonumber(gate[1])
local left = tonumber(redis.call('GET', KEYS[3]))
if not per_user or not gate[2] or not left then return { 'not_ready' } end
if tonumber(redis.call('HGET', KEYS[4], user) or 0) + quantity > per_user then return { 'limit_reached' } end
if left >= 0 and left < quantity then return { 'sold_out' } end
if left >= 0 then redis.call('DECRBY', KEYS[3], quantity) end
redis.call('HINCRBY', KEYS[4], user, quantity)
redis.call('HINCRBY', KEYS[7], 'held:' .. sku, quantity)
local sequence = redis.call('HINCRBY', KEYS[6], 'enqueued', 1)
redis.call('HSET', KEYS[2], 'status', 'queued', 'user', user, 'sku', sku, 'quantity', quantity, 'amount', ARGV[5],
  'currency', ARGV[6], 'created_at', ARGV[7], 'sequence', sequence, 'ahead', 0, 'wait_ms', 0, 'reason', '',
  'epoch', gate[2])
redis.call('PERSIST', KEYS[2])
redis.call('XADD', KEYS[5], '*', 'o', ARGV[1] .. '\t' .. gate[2])
local bits = redis.call('STRLEN', KEYS[8]) * 8
if bits > 0 then redis.call('SETBIT', KEYS[8], ARGV[8] % bits, 1) end
return { 'queued' }
