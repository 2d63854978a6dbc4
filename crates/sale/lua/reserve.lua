-- Decides one reservation and, if it is accepted, writes all of it in one step (C1, C2, D2; I1, I3, I7).
--
-- Every sale waits for this script, so it is kept short: the names of the other keys are made here from the gate's (all
-- keys of an activity have one hash tag), numbers are passed to Redis as text, which it converts faster, and what is
-- switched off makes no call.
--
-- KEYS  1 gate
-- ARGV  1 ULID, 2 user, 3 address, 4 SKU, 5 quantity, 6 start key, 7 "1" if the caller wants the gate, 8 until
--       when this call may decide (ms), then the instance's counts (`record_counts`)
-- Reply queued or repeated, now (ms), limits ("name;count;seconds;left;reset" joined by "|"), ahead, wait (ms), amount,
--       currency, created_at (ms) | a code that refuses, now, limits, ms to wait (0 if waiting does not help); then, if
--       the caller wants the gate and there is one: state, starts_at, ends_at, start key, "1" while load is shed

local call = redis.call
local ulid, user, address, sku, quantity = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local prefix = string.sub(KEYS[1], 1, -5)
local stats = prefix .. 'stats'
local now, exact_now = read_time()
local now_text = to_text(now)

local gate = call('HMGET', KEYS[1], 'state', 'starts_at', 'ends_at', 'start_key', 'shed', 'per_user',
  'limit_user', 'limit_ip', 'limit_all', 'max_wait_ms', 'price:' .. sku, 'currency:' .. sku, 'epoch')
local state, starts_at, ends_at, start_key, shed = gate[1], gate[2], gate[3], gate[4], gate[5]
local epoch = gate[13]

local limits = ''
local function answer(word, ...)
  local reply = { word, now, limits, ... }
  if ARGV[7] == '1' and state then append(reply, state, starts_at, ends_at, start_key, shed) end
  return reply
end
local function refuse(word, wait_ms)
  if state then call('HINCRBY', stats, 'refused:' .. word, '1') end
  return answer(word, wait_ms or 0)
end

-- What needs no Redis costs no call of its own: an instance reports it with its next valid ticket.
record_counts(9, prefix, state)

-- Cheapest refusal first.
if not state or not epoch then return refuse('not_ready') end
-- A buyer who has looked for the order in vain gets none later.
if now > tonumber(ARGV[8]) then return refuse('overloaded', 1000) end
if state == 'closed' or now >= tonumber(ends_at) then return refuse('ended') end
if state == 'paused' then return refuse('paused') end
if now < tonumber(starts_at) then return refuse('not_open', starts_at - now) end
if shed == '1' then return refuse('overloaded', 5000) end
if ARGV[6] ~= start_key then return refuse('start_key_invalid') end
if call('EXISTS', prefix .. 'ban:user:' .. user, prefix .. 'ban:ip:' .. address) > 0 then return refuse('banned') end

if gate[7] or gate[8] then
  local policies = { { 'user', gate[7], prefix .. 'rate:user:' .. user }, { 'ip', gate[8], prefix .. 'rate:ip:' .. address } }
  local report, limit_name, retry_ms = limit(policies, exact_now)
  limits = report
  if limit_name then
    if limit_name == 'user' then
      record_abuse(prefix .. 'abuse:user:' .. user, prefix .. 'ban:user:' .. user, 1, now)
    else
      record_address_abuse(prefix, address, 1)
    end
    return refuse('rate_limited', retry_ms)
  end
end

-- The ticket is the idempotency key: the record of its order is its outcome.
local order = prefix .. 'order:' .. ulid
local ordered_sku = call('HGET', order, 'sku')
if ordered_sku then
  local existing = call('HMGET', order, 'quantity', 'ahead', 'wait_ms', 'amount', 'currency', 'created_at')
  if ordered_sku ~= sku or existing[1] ~= quantity then return refuse('ticket_conflict') end
  return answer('repeated', existing[2], existing[3], existing[4], existing[5], existing[6])
end

local price, currency = gate[11], gate[12]
if not price then return refuse('not_found') end
local units = tonumber(quantity)
local holders = prefix .. 'holders:' .. sku
if (call('HGET', holders, user) or 0) + units > tonumber(gate[6]) then return refuse('limit_reached') end

local stock = prefix .. 'stock:' .. sku
local left = tonumber(call('GET', stock))
if not left then return refuse('not_ready') end
if left >= 0 and left < units then return refuse('sold_out') end

local held_field = 'held:' .. sku
local counters = call('HMGET', stats, 'enqueued', 'written', 'rate', 'awake_until', held_field)
local enqueued = tonumber(counters[1] or 0)
local ahead = math.max(0, enqueued - (counters[2] or 0))
local wait_ms = ahead == 0 and 0 or math.ceil(ahead * 1000 / math.max(1, tonumber(counters[3] or 5000)))
local max_wait_ms = tonumber(gate[10] or 0)
if max_wait_ms > 0 and wait_ms > max_wait_ms then return refuse('overloaded', wait_ms - max_wait_ms) end

-- The limit in all counts orders. If it counted refused requests, one client could use it up for everybody.
if gate[9] then
  local report, exceeded, retry_ms = limit({ { 'all', gate[9], prefix .. 'rate:all:' } }, exact_now)
  limits = limits == '' and report or limits .. '|' .. report
  if exceeded then return refuse('rate_limited', retry_ms) end
end

-- Accepted. A script is atomic: everything below happens together or not at all.
local amount = to_text(price * units)
if left >= 0 then call('DECRBY', stock, quantity) end
call('HINCRBY', holders, user, quantity)
local sequence, ahead_text, wait_text = to_text(enqueued + 1), to_text(ahead), to_text(wait_ms)
local held = to_text((counters[5] or 0) + units)
write_order(order, { status = 'queued', user = user, sku = sku, quantity = quantity, amount = amount,
  currency = currency, created_at = now_text, epoch = epoch, sequence = sequence, ahead = ahead_text, wait_ms = wait_text })
call('XADD', prefix .. 'orders', '*', 'o',
  table.concat({ ulid, user, sku, quantity, amount, currency, now_text, epoch }, '\t'))
-- The writer that a doorbell woke is awake for 2 s, unless it says earlier that it is idle (writer_idle.lua). A time
-- that is further ahead is left from a clock that was fast.
local awake_ms = (counters[4] or 0) - now
if awake_ms > 0 and awake_ms <= 2000 then
  call('HSET', stats, 'enqueued', sequence, held_field, held)
else
  call('HSET', stats, 'enqueued', sequence, held_field, held, 'awake_until', to_text(now + 2000))
  call('PUBLISH', 'stampede:doorbell', string.sub(prefix, 2, -3))
end
return answer('queued', ahead, wait_ms, amount, currency, now)
