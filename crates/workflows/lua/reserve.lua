-- Decides one reservation and, if it is accepted, writes all of it in one step (C1, C2, D2; I1, I3, I7).
--
-- KEYS  1 gate, 2 order, 3 stock, 4 holders, 5 orders (stream), 6 queue, 7 stats, 8 awake, 9 winners,
--       10 ban of the user, 11 ban of the address, 12 rate of the user, 13 rate of the address, 14 rate of all,
--       15 abuse of the user, 16 abuse of the address, then for each address that sent bad tickets: its abuse, its ban
-- ARGV  1 start key, 2 SKU, 3 quantity, 4 user, 5 ULID, 6 activity, 7 doorbell channel,
--       8 number of the ticket's bit in `winners`, 9 "1" if the caller wants the gate and the winners, then for each
--       address that sent bad tickets: number of attempts
-- Reply word, now (ms), limits ("name;count;seconds;left;reset" joined by "|"), gate (or ""), then
--       queued | replayed: ahead, wait (ms), amount, currency, created_at (ms)
--       not_open: ms until the start; rate_limited, overloaded: ms to wait
--       sold_out: size of the bitmap of winners (bytes), and the bitmap if it is small and the caller wants it
--       nothing for: not_ready, ended, paused, start_key_invalid, banned, ticket_conflict, limit_reached, not_found

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local sku, quantity, user, ulid = ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]

local gate = redis.call('HMGET', KEYS[1], 'state', 'starts_at', 'ends_at', 'start_key', 'shed', 'per_user',
  'limit_user', 'limit_ip', 'limit_all', 'max_wait_ms', 'price:' .. sku, 'currency:' .. sku, 'epoch')
local state, starts_at, ends_at, start_key, shed = gate[1], tonumber(gate[2]), tonumber(gate[3]), gate[4], gate[5]
local epoch = gate[13]

local limits = ''
local function gate_text()
  if ARGV[9] ~= '1' or not state then return '' end
  return table.concat({ state, gate[2], gate[3], shed or '0', start_key }, '|')
end
local function refuse(word, ...)
  if state then redis.call('HINCRBY', KEYS[7], 'refused:' .. word, 1) end
  return { word, now, limits, gate_text(), ... }
end

-- Bad tickets cost no call of their own: an instance reports them with its next valid ticket. ARGV[10] belongs to
-- KEYS[17] (abuse) and KEYS[18] (ban), ARGV[11] to KEYS[19] and KEYS[20], and so on.
for i = 10, #ARGV do record_abuse(ADDRESS_ABUSE_RULE, KEYS[i * 2 - 3], KEYS[i * 2 - 2], tonumber(ARGV[i]), now) end

-- Cheapest refusal first.
if not state or not epoch then return refuse('not_ready') end
if state == 'closed' or now >= ends_at then return refuse('ended') end
if state == 'paused' then return refuse('paused') end
if now < starts_at then return refuse('not_open', starts_at - now) end
if shed == '1' then return refuse('overloaded', 5000) end
if ARGV[1] ~= start_key then return refuse('start_key_invalid') end
if redis.call('EXISTS', KEYS[10], KEYS[11]) > 0 then return refuse('banned') end

local policies = { { 'user', gate[7], KEYS[12] }, { 'ip', gate[8], KEYS[13] }, { 'all', gate[9], KEYS[14] } }
local report, limit_name, retry_ms = limit(policies, time[1] * 1000 + time[2] / 1000)
limits = report
if limit_name then
  if limit_name == 'user' then record_abuse(USER_ABUSE_RULE, KEYS[15], KEYS[10], 1, now) end
  if limit_name == 'ip' then record_abuse(ADDRESS_ABUSE_RULE, KEYS[16], KEYS[11], 1, now) end
  return refuse('rate_limited', retry_ms)
end

-- The ticket is the idempotency key: the record of its order is its outcome.
local existing = redis.call('HMGET', KEYS[2], 'sku', 'quantity', 'ahead', 'wait_ms', 'amount', 'currency', 'created_at')
if existing[1] then
  if existing[1] ~= sku or tonumber(existing[2]) ~= quantity then return refuse('ticket_conflict') end
  return { 'replayed', now, limits, gate_text(), existing[3], existing[4], existing[5], existing[6], existing[7] }
end

if not gate[11] then return refuse('not_found') end
local per_user = tonumber(gate[6])
local live_by_user = tonumber(redis.call('HGET', KEYS[4], user) or 0)
if live_by_user + quantity > per_user then return refuse('limit_reached') end

local left = tonumber(redis.call('GET', KEYS[3]))
if not left then return refuse('not_ready') end
if left >= 0 and left < quantity then
  -- A script copies a large value slowly: GET takes a tenth of the time.
  local size = redis.call('STRLEN', KEYS[9])
  return refuse('sold_out', size, ARGV[9] == '1' and size <= 32768 and redis.call('GET', KEYS[9]) or '')
end

local queue = redis.call('HMGET', KEYS[6], 'enqueued', 'written', 'rate')
local ahead = math.max(0, tonumber(queue[1] or 0) - tonumber(queue[2] or 0))
local rate = math.max(1, tonumber(queue[3] or 5000))
local wait_ms = math.ceil(ahead * 1000 / rate)
local max_wait_ms = tonumber(gate[10] or 0)
if max_wait_ms > 0 and wait_ms > max_wait_ms then return refuse('overloaded', wait_ms - max_wait_ms) end

-- Accepted. A script is atomic: everything below happens together or not at all.
local amount = string.format('%.0f', tonumber(gate[11]) * quantity)
if left >= 0 then redis.call('DECRBY', KEYS[3], quantity) end
redis.call('HINCRBY', KEYS[4], user, quantity)
redis.call('HINCRBY', KEYS[7], 'held:' .. sku, quantity)
local sequence = redis.call('HINCRBY', KEYS[6], 'enqueued', 1)
write_order(KEYS[2], { status = 'queued', user = user, sku = sku, quantity = quantity, amount = amount,
  currency = gate[12], created_at = now, epoch = epoch, sequence = sequence, ahead = ahead, wait_ms = wait_ms })
redis.call('XADD', KEYS[5], '*', 'o', table.concat({ ulid, user, sku, quantity, amount, gate[12], now, epoch }, '\t'))
local bits = redis.call('STRLEN', KEYS[9]) * 8
if bits > 0 then redis.call('SETBIT', KEYS[9], ARGV[8] % bits, 1) end
if redis.call('SET', KEYS[8], '1', 'NX', 'PX', 2000) then redis.call('PUBLISH', ARGV[7], ARGV[6]) end
return { 'queued', now, limits, gate_text(), ahead, wait_ms, amount, gate[12], now }
