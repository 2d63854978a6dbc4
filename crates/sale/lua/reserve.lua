-- Decides one reservation and, if it is accepted, writes all of it in one step (C1, C2, D2; I1, I3, I7).
--
-- Every sale waits for this script, so it is kept short: numbers are passed to Redis as text, which it converts faster,
-- and what is switched off makes no call.
--
-- Where nothing is left, or somebody waits for the SKU, a reservation of one unit joins the line, if there is one (H1; I8).
--
-- KEYS  1 gate, 2 stats, 3 queued, 4 orders (stream), 5 order, 6 holders, 7 limit in all, 8 ban, 9 limit and 10 abuse of the
--       user, 11 ban, 12 limit, 13 abuse and 14 mark of the address, 15 entries, 16 line of the SKU, then those of the
--       instance's counts
-- ARGV  1 ULID, 2 user, 3 address, 4 SKU, 5 quantity, 6 start key, 7 "1" if the caller wants the gate, 8 until
--       when this call may decide (ms), 9 epoch and 10 sequence of the last order that the instance knows of (0 for none),
--       11 the amount that the buyer was shown, or empty, then the instance's counts (`record_counts`)
-- Reply queued, repeated, joined or rejoined (the ticket's entry in the line, which it made before), now (ms), limits
--       ("name;count;seconds;left;reset" joined by "|"), ahead, wait (ms), amount, currency, created_at (ms), epoch, sequence
--       (0 if repeated), if rejoined its state | a code that refuses, now, limits, and ms to wait (0 if waiting does not help), units left
--       (insufficient_stock), amount and currency (price_changed), the ULID of the user's entry (limit_reached, if that is
--       why), or "1" if one unit can be waited for (sold_out); then, if
--       the caller wants the gate and there is one: state, starts_at, ends_at, start key, "1" while load is shed

local call = redis.call
local ulid, user, address, sku, quantity = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local stats, queued, entries, line = KEYS[2], KEYS[3], KEYS[15], KEYS[16]
local now, exact_now = read_time()
local now_text, units = to_text(now), tonumber(quantity)

local gate = call('HMGET', KEYS[1], 'state', 'starts_at', 'ends_at', 'start_key', 'shed', 'per_user',
  'limit_user', 'limit_ip', 'limit_all', 'max_wait_ms', 'price:' .. sku, 'currency:' .. sku, 'epoch', 'line:' .. sku)
local state, starts_at, ends_at, start_key, shed = gate[1], gate[2], gate[3], gate[4], gate[5]
local epoch, line_units = gate[13], tonumber(gate[14] or 0)

local limits = ''
local function answer(word, ...)
  local reply = { word, now, limits, ... }
  if ARGV[7] == '1' and state then append(reply, state, starts_at, ends_at, start_key, shed) end
  return reply
end
local function refuse(word, number, currency)
  if state then call('HINCRBY', stats, 'refused:' .. word, '1') end
  return answer(word, number or 0, currency)
end

-- What needs no Redis costs no call of its own: an instance reports it with its next valid ticket.
record_counts(12, 17, stats, state)

-- Cheapest refusal first.
if not state or not epoch then return refuse('not_ready') end
-- A buyer who has looked for the order in vain gets none later.
if now > tonumber(ARGV[8]) then return refuse('overloaded', 1000) end
if state == 'closed' or now >= tonumber(ends_at) then return refuse('ended') end
if state == 'paused' then return refuse('paused') end
if now < tonumber(starts_at) then return refuse('not_open', starts_at - now) end
if shed == '1' then return refuse('overloaded', 5000) end
if ARGV[6] ~= start_key then return refuse('start_key_invalid') end
if call('EXISTS', KEYS[8], KEYS[11]) > 0 then return refuse('banned') end

if gate[7] or gate[8] then
  local report, limit_name, retry_ms = limit({ { 'user', gate[7], KEYS[9] }, { 'ip', gate[8], KEYS[12] } }, exact_now)
  limits = report
  if limit_name then
    if limit_name == 'user' then
      record_abuse(KEYS[10], KEYS[8], 1, now)
    else
      record_address_abuse(KEYS[13], KEYS[14], address, 1)
    end
    return refuse('rate_limited', retry_ms)
  end
end

-- The ticket is the idempotency key: its order is its outcome.
local first = read_queued(queued, ulid)
if first == false then return refuse('overloaded', 1000) end
local own = line_units > 0 and read_entries(entries, user)
local entry = own and find_entry(own, ulid)
if entry and entry.state ~= 'offered' then
  if entry.sku ~= sku or units ~= 1 then return refuse('ticket_conflict') end
  local ahead = redis.call('ZRANK', line, user) or 0
  return answer('rejoined', ahead, 0, entry.amount, entry.currency, entry.created_at, 0, 0, entry.state)
end
if not first then
  local record = call('HMGET', KEYS[5], 'sku', 'quantity', 'amount', 'currency', 'created', 'place')
  local ahead, wait_ms = string.match(record[6] or '0 0', '(%d+) (%d+)')
  first = { sku = record[1], quantity = record[2], amount = record[3], currency = record[4], created_at = record[5],
    ahead = ahead, wait_ms = wait_ms }
end
if first.sku then
  if first.sku ~= sku or first.quantity ~= quantity then return refuse('ticket_conflict') end
  return answer('repeated', first.ahead, first.wait_ms, first.amount, first.currency, first.created_at, 0, 0)
end

local price, currency = gate[11], gate[12]
if not price then return refuse('not_found') end
local holder = sku .. ':' .. user
if (call('HGET', KEYS[6], holder) or 0) + units > tonumber(gate[6]) then return refuse('limit_reached') end

local left_field, held_field = 'left:' .. sku, 'held:' .. sku
local counters = call('HMGET', stats, 'enqueued', 'written', 'rate', 'awake_until', held_field, left_field,
  'waiting:' .. sku)
local left = tonumber(counters[6])
if not left then return refuse('not_ready') end
local enqueued = tonumber(counters[1] or 0)
-- A Redis that is behind an order that it has accepted lost that order, and all later ones: a failover to a replica.
local known_epoch, known_sequence = tonumber(ARGV[9]), tonumber(ARGV[10])
if known_epoch > 0 and (known_epoch > tonumber(epoch) or known_epoch == tonumber(epoch) and known_sequence > enqueued) then
  stop_gate(KEYS[1], ARGV[9], ARGV[10])
  return refuse('not_ready')
end
local waiting = tonumber(counters[7] or 0)
local joins = left == 0 or waiting > 0
if joins then
  local first_entry = own and find_waiting(own, sku)
  if first_entry then return refuse('limit_reached', first_entry.ulid) end
  if waiting >= line_units then return refuse('sold_out') end
  if units > 1 then return refuse('sold_out', 1) end
end
if not joins and left > 0 and left < units then return refuse('insufficient_stock', left) end
-- The order would have this price.
local amount = to_text(price * units)
if ARGV[11] ~= '' and ARGV[11] ~= amount then return refuse('price_changed', amount, currency) end

local ahead = math.max(0, enqueued - (counters[2] or 0))
local wait_ms = ahead == 0 and 0 or math.ceil(ahead * 1000 / math.max(1, tonumber(counters[3] or 5000)))
local max_wait_ms = tonumber(gate[10] or 0)
if max_wait_ms > 0 and wait_ms > max_wait_ms then return refuse('overloaded', wait_ms - max_wait_ms) end

-- The limit in all counts orders. If it counted refused requests, one client could use it up for everybody.
if gate[9] then
  local report, exceeded, retry_ms = limit({ { 'all', gate[9], KEYS[7] } }, exact_now)
  limits = limits == '' and report or limits .. '|' .. report
  if exceeded then return refuse('rate_limited', retry_ms) end
end

-- Accepted. A script is atomic, and nothing below can fail: the message, which is written first, could.
local sequence = to_text(enqueued + 1)
if joins then
  entry = { ulid = ulid, sku = sku, amount = amount, currency = currency, created_at = now_text, epoch = epoch,
    sequence = sequence, state = 'waiting', ended_at = '' }
  send_entry(queued, KEYS[4], user, entry, 'join', epoch, sequence)
  own[#own + 1] = entry
  write_entries(entries, user, own, now)
  enter_line(line, stats, user, entry)
  call('HSET', stats, 'enqueued', sequence)
  ring(KEYS[1], stats, now)
  return answer('joined', waiting, 0, amount, currency, now, epoch, sequence)
end
queue_order(queued, KEYS[4], ulid, user, sku, quantity, amount, currency, now_text, epoch, sequence, to_text(ahead), to_text(wait_ms))
call('HINCRBY', KEYS[6], holder, quantity)
local left_after = left < 0 and '-1' or to_text(left - units)
local held = to_text((counters[5] or 0) + units)
-- The writer that a doorbell woke is awake for 2 s, unless it says earlier that it is idle (writer_idle.lua). A time
-- that is further ahead is left from a clock that was fast.
local awake_ms = (counters[4] or 0) - now
if awake_ms > 0 and awake_ms <= 2000 then
  call('HSET', stats, 'enqueued', sequence, held_field, held, left_field, left_after)
else
  call('HSET', stats, 'enqueued', sequence, held_field, held, left_field, left_after, 'awake_until', to_text(now + 2000))
  call('PUBLISH', 'stampede:doorbell', string.sub(KEYS[1], 2, -7))
end
return answer('queued', ahead, wait_ms, amount, currency, now, epoch, sequence)
