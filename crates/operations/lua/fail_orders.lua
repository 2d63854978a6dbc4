-- Marks the records of orders that the ledger has no room for as failed, in a backfill (G5; I4). Units are not counted:
-- the rebuild counts them anew.
--
-- KEYS  an order record each
-- ARGV  1 JSON: closed_ttl (of a closed order, seconds), state {status, live, pay_by (ms), paid_at (ms), reason}
-- Reply done

local now = read_time()
local options = cjson.decode(ARGV[1])
for _, key in ipairs(KEYS) do write_state(key, options.state, now, options.closed_ttl) end
return { 'done' }
