-- Ends an entry of the line: its user leaves, or an operator removes it (H1).
--
-- KEYS  1 gate, 2 stats, 3 queued, 4 orders (stream), 5 entries, 6 line of its SKU
-- ARGV  1 user, 2 ULID, 3 reason
-- Reply left, reason (also if it ended before) | offered (it has an order) | absent | unknown (a rebuild is due: its message would hold that up)

local user, now = ARGV[1], read_time()
local list = read_entries(KEYS[5], user)
local entry = find_entry(list, ARGV[2])
local gate = redis.call('HMGET', KEYS[1], 'epoch', 'restoring', 'stopped')
local is_whole = gate[1] and not gate[2] and not gate[3]
if not entry then return { is_whole and 'absent' or 'unknown' } end
if entry.state == 'offered' then return { 'offered' } end
if entry.state ~= 'waiting' then return { 'left', entry.state } end
if not is_whole then return { 'unknown' } end
send_entry(KEYS[3], KEYS[4], user, entry, ARGV[3], entry.epoch, entry.sequence)
redis.call('HINCRBY', KEYS[2], 'enqueued', 1)
entry.state, entry.ended_at = ARGV[3], to_text(now)
leave_line(KEYS[6], KEYS[2], user, entry)
write_entries(KEYS[5], user, list, now)
ring(KEYS[1], KEYS[2], now)
return { 'left', ARGV[3] }
