-- Prepares an activity's Redis data for a rebuild from the ledger (G5), if it is paused or closed, or has
-- no complete gate of the present epoch.
--
-- Without an epoch it deletes only the gate: from then on nothing is sold, and the ledger can raise the epoch.
--
-- With an epoch it deletes the gate, the stream, the counters with the stock, the holders, and the line, and creates the gate of that
-- epoch, marked `restoring`. An open gate of an older epoch is deleted, too: a slower rebuild created it, and the
-- ledger refuses the orders that it accepts. Order records, bans, abuse records, rate limits and visitors stay.
--
-- KEYS  1 gate, 2 queued, 3 orders (stream), 4 stats, 5 index, 6 holders, 7 entries, then the line of each SKU
-- ARGV  1 JSON: new_epoch (absent to delete only the gate), gate_epoch (as it was read, 0 for no gate), to_restore (number
--       of orders)
-- Reply forgotten | open (the activity is neither paused nor closed) | queued (orders wait: they must be written first) | fenced (another rebuild has created a later gate)

local options = cjson.decode(ARGV[1])
local new_epoch = options.new_epoch
local gate = redis.call('HMGET', KEYS[1], 'state', 'epoch', 'restoring', 'stopped')
local state, epoch = gate[1], tonumber(gate[2] or 0)
if epoch > (new_epoch or options.gate_epoch) then return { 'fenced' } end
local outdated = new_epoch and epoch < new_epoch
local is_selling = state and gate[2] and not gate[3] and not gate[4] and not outdated
if is_selling and state ~= 'paused' and state ~= 'closed' then return { 'open' } end
if redis.call('XLEN', KEYS[3]) + redis.call('HLEN', KEYS[2]) > 0 then return { 'queued' } end
redis.call('DEL', KEYS[1])
if not new_epoch then return { 'forgotten' } end
-- UNLINK frees large keys in the background; DEL would hold up the other activities.
redis.call('UNLINK', unpack(KEYS, 3))
redis.call('HSET', KEYS[1], 'epoch', new_epoch, 'restoring', '1', 'restored', 0, 'restored_after', '', 'to_restore',
  options.to_restore)
return { 'forgotten' }
