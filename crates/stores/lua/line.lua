-- Functions on the line of an activity (H1), prepended to every script that reads or changes it. Not a script of its own.
--
-- The hash `entries` has a field for each user: their entries, a line each. The sorted set `line:<SKU>` has the users who
-- wait for a unit of a SKU, by epoch and sequence: nothing else orders it. `waiting:<SKU>` of the counters is its size: while
-- it is not 0, the units left belong to the line.
--
-- An entry's state is `waiting`, `offered` (its order is in the queue), or why it ended. One that ended stays for as long as
-- its ticket could be sent again.

local ENTRY = '([^\t\n]+)' .. string.rep('\t([^\t\n]*)', 8)
local TICKET_MS = 3600000

-- Reads the entries of a user.
local function read_entries(entries, user)
  local found = {}
  for ulid, sku, amount, currency, created_at, epoch, sequence, state, ended_at in
    string.gmatch(redis.call('HGET', entries, user) or '', ENTRY) do
    found[#found + 1] = { ulid = ulid, sku = sku, amount = amount, currency = currency, created_at = created_at,
      epoch = epoch, sequence = sequence, state = state, ended_at = ended_at }
  end
  return found
end

-- Writes them, but for those whose tickets have expired since they ended.
local function write_entries(entries, user, list, now)
  local lines = {}
  for _, entry in ipairs(list) do
    if entry.ended_at == '' or now - tonumber(entry.ended_at) < TICKET_MS then
      lines[#lines + 1] = table.concat({ entry.ulid, entry.sku, entry.amount, entry.currency, entry.created_at, entry.epoch,
        entry.sequence, entry.state, entry.ended_at }, '\t')
    end
  end
  if lines[1] then
    redis.call('HSET', entries, user, table.concat(lines, '\n'))
  else
    redis.call('HDEL', entries, user)
  end
end

-- Returns the entry of a ticket.
local function find_entry(list, ulid)
  for _, entry in ipairs(list) do
    if entry.ulid == ulid then return entry end
  end
end

-- Reads an entry that has no order: SKU, amount, currency, created_at (ms), state, "1" if the sale is over. Returns nothing if
-- there is none.
local function read_entry(gate, entries, user, ulid, now)
  local entry = find_entry(read_entries(entries, user), ulid)
  if not entry or entry.state == 'offered' then return end
  local terms = redis.call('HMGET', gate, 'state', 'ends_at')
  local is_over = terms[1] == 'closed' or now >= tonumber(terms[2] or math.huge)
  return { entry.sku, entry.amount, entry.currency, entry.created_at, entry.state, is_over and '1' or '0' }
end

-- Returns the entry of a user who waits for a SKU.
local function find_waiting(list, sku)
  for _, entry in ipairs(list) do
    if entry.sku == sku and entry.state == 'waiting' then return entry end
  end
end

-- The place of an entry as a score of the sorted set: 16 bits of epoch, 36 of sequence.
local function place_of(entry) return to_text(tonumber(entry.epoch) * 68719476736 + tonumber(entry.sequence)) end

-- Puts an entry into the line, at its place.
local function enter_line(line, stats, user, entry)
  redis.call('ZADD', line, place_of(entry), user)
  redis.call('HSET', stats, 'waiting:' .. entry.sku, redis.call('ZCARD', line))
end

-- Takes it out.
local function leave_line(line, stats, user, entry)
  redis.call('ZREM', line, user)
  redis.call('HSET', stats, 'waiting:' .. entry.sku, redis.call('ZCARD', line))
end

-- Writes the message of an entry into the stream, and notes it as the one that is not written yet.
local function send_entry(queued, stream, user, entry, kind, epoch, sequence)
  local place = entry.epoch .. ' ' .. entry.sequence
  local message = table.concat({ '2', entry.ulid, user, entry.sku, '1', entry.amount, entry.currency, entry.created_at,
    epoch, sequence, '0', '0', kind, place }, '\t')
  local id = redis.call('XADD', stream, '*', 'o', message)
  redis.call('HSET', queued, entry.ulid, id .. ' ' .. message)
end

-- Rings for an order writer, unless one is awake for its 2 s (`reserve.lua`).
local function ring(gate, stats, now)
  local awake_ms = (redis.call('HGET', stats, 'awake_until') or 0) - now
  if awake_ms > 0 and awake_ms <= 2000 then return end
  redis.call('HSET', stats, 'awake_until', to_text(now + 2000))
  redis.call('PUBLISH', 'stampede:doorbell', string.sub(gate, 2, -7))
end
