-- Functions on orders, prepended to every script that reads or writes them. Not a script of its own.
--
-- A queued order is a field of the hash `queued`: its ULID, and as value the id of its message in the stream `orders`, a
-- space, and the message. In the step that deletes its message it leaves the hash, and becomes a record `order:<ulid>`.
--
-- A record has the fields that these functions write, and those of its payments (set_session.lua, decline.lua). `live` is
-- "1" if an order that does not wait for payment holds units. `place` is what a repeat of the reservation answers: the
-- orders that were ahead, and ms to wait.

-- The fields of a message: version, ULID, user, SKU, quantity, amount, currency, created_at, epoch, sequence, ahead, wait (ms).
-- Version 2 is about an entry of the line (line.lua), and has two more: kind, and the entry's epoch and sequence. The kind is
-- `join`, `again` (an operator replayed it), `offer:` and the ms to pay (it is an order, with a sequence of its own), or why
-- the entry ended.
local MESSAGE = '^(%S+) ([12])\t[^\t]*' .. string.rep('\t([^\t]*)', 10) .. '(.*)$'

-- Queues an order. The stream comes first: if it refuses the message, nothing has been written.
local function queue_order(queued, stream, ulid, ...)
  local message = table.concat({ '1', ulid, ... }, '\t')
  local id = redis.call('XADD', stream, '*', 'o', message)
  redis.call('HSET', queued, ulid, id .. ' ' .. message)
end

-- Reads the value of a field of `queued`; nil if it is not one of this version.
local function parse_queued(text)
  local id, version, user, sku, quantity, amount, currency, created_at, epoch, sequence, ahead, wait_ms, rest =
    string.match(text, MESSAGE)
  if not id or (version == '1') ~= (rest == '') then return end
  local kind = string.match(rest, '^\t([^\t]+)\t%d+ %d+$')
  if version == '2' and not kind then return end
  local status = (version == '1' or string.sub(kind, 1, 6) == 'offer:') and 'queued' or 'waiting'
  return { status = status, is_offer = version == '2', message = id, user = user, sku = sku, quantity = quantity, amount = amount,
    currency = currency, created_at = created_at, epoch = epoch, sequence = sequence, ahead = ahead, wait_ms = wait_ms }
end

-- Returns an order if it is queued; false if it was queued by a later version of the app. What waits in the line is none.
local function read_queued(queued, ulid)
  local text = redis.call('HGET', queued, ulid)
  local order = text and parse_queued(text)
  if text and not order then return false end
  if order and order.status == 'queued' then return order end
end

-- Whether the stream has a message.
local function has_message(stream, id) return #redis.call('XRANGE', stream, id, id) > 0 end

-- Writes the fields of a record that stay the same until its order is queued again.
local function write_order(key, order)
  redis.call('HSET', key, 'user', order.user, 'sku', order.sku, 'quantity', order.quantity, 'amount', order.amount,
    'currency', order.currency, 'created', order.created_at, 'epoch', order.epoch)
end

-- Makes a queued order's record. `write_state` completes it.
local function leave_queue(queued, key, order)
  redis.call('HDEL', queued, string.sub(key, -26))
  write_order(key, order)
  if order.ahead ~= '0' then redis.call('HSET', key, 'place', order.ahead .. ' ' .. order.wait_ms) end
end

-- Writes the state of an order that has left the queue. The record of a closed order that holds no units expires after
-- `closed_ttl` seconds, any other at `keep_until` (ms).
local function write_state(key, state, now, closed_ttl, keep_until)
  local status = state.status
  redis.call('HSET', key, 'status', status, 'pay_by', state.pay_by, 'synced', now)
  -- An order that waits for payment has no payment and no reason, and holds units.
  if status ~= 'pending_payment' then
    redis.call('HSET', key, 'live', state.live and '1' or '0', 'paid_at', state.paid_at, 'reason', state.reason)
  end
  if (state.refunded or 0) > 0 then redis.call('HSET', key, 'refunded', to_text(state.refunded)) end
  local is_closed = status == 'cancelled' or status == 'expired' or status == 'failed' or status == 'refunded'
  if is_closed and not state.live then
    redis.call('EXPIRE', key, closed_ttl)
  elseif keep_until then
    redis.call('PEXPIREAT', key, keep_until)
  end
end
