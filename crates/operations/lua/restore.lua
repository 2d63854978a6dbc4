-- Puts orders of the ledger back into Redis, and counts the units that they hold: in a rebuild a page of all of them
-- after reset.lua (G5), in a sweep those that Redis has lost (I2, I3, I7).
--
-- In a rebuild the gate remembers the last order of the page, in the same step. So a page counts once, also if two
-- requests restore it, or one repeats the call; and the next request continues where this one ends. An order is counted
-- with the state in its record, so that a later transition of the order finds matching counters.
--
-- KEYS  1 gate, 2 orders (stream), 3 stats, 4 index, 5 holders, 6 queued, then one order record each
-- ARGV  1 JSON: closed_ttl (of a closed order, seconds), epoch (of the orders), is_rebuild, after
--       (number of the order after which the page begins; "" for the first page and for a sweep), last (number of the
--       last order), orders: for each {user, sku, quantity, amount, currency, created_at, status, live, pay_by,
--       paid_at, reason, refunded, checkout_url}
-- Reply restored, number of the last order restored ("" in a sweep), orders restored in all | elsewhere, last, restored
--       (another request restored this page: nothing was changed) | done, "", restored (the rebuild has ended) | fenced,
--       "", 0 (the gate has another epoch, or is being rebuilt while a sweep restores)

local now = read_time()
local options = cjson.decode(ARGV[1])
local is_rebuild = options.is_rebuild
local gate = redis.call('HMGET', KEYS[1], 'keep_until', 'epoch', 'restoring', 'restored_after', 'restored')
local keep_until, epoch, restoring, restored_before = gate[1], gate[2], gate[3], tonumber(gate[5] or 0)
if tonumber(epoch) ~= options.epoch or (restoring and not is_rebuild) then return { 'fenced', '', 0 } end
if is_rebuild and not restoring then return { 'done', '', restored_before } end
if is_rebuild and gate[4] ~= options.after then return { 'elsewhere', gate[4], restored_before } end
local ulids = {}
for i, order in ipairs(options.orders) do
  local key, sku, units = KEYS[6 + i], order.sku, order.quantity
  local ulid = string.sub(key, -26)
  -- A record that Redis still has, or has again, may be later than the ledger's row that the sweeper read.
  local is_lost = redis.call('HGET', key, 'epoch') ~= epoch and redis.call('HEXISTS', KEYS[6], ulid) == 0
  if is_rebuild or is_lost then
    order.epoch = epoch
    write_order(key, order)
    -- The record of an earlier epoch may have a later state.
    redis.call('HDEL', key, 'live', 'paid_at', 'reason', 'refunded')
    redis.call('HSET', key, 'checkout_url', order.checkout_url)
    write_state(key, order, now, options.closed_ttl, keep_until)
    ulids[#ulids + 1] = ulid
    if order.live then
      redis.call('HINCRBY', KEYS[5], sku .. ':' .. order.user, units)
      if order.status == 'pending_payment' then
        redis.call('HINCRBY', KEYS[3], 'held:' .. sku, units)
        redis.call('HINCRBY', KEYS[3], 'pending:' .. sku, units)
      else
        redis.call('HINCRBY', KEYS[3], 'sold:' .. sku, units)
      end
      -- A rebuild sets the stock at its end (finish.lua).
      if not is_rebuild then
        local left, expected_left = read_stock(sku)
        if left then set_stock(sku, math.max(0, math.min(left, expected_left))) end
      end
    end
  end
end
if ulids[1] then
  redis.call('APPEND', KEYS[4], table.concat(ulids))
  if keep_until then redis.call('PEXPIREAT', KEYS[4], keep_until) end
end
if not is_rebuild then return { 'restored', '', #options.orders } end
local restored = restored_before + #options.orders
redis.call('HSET', KEYS[1], 'restored_after', options.last, 'restored', restored)
return { 'restored', options.last, restored }
