-- Functions that every script starts with. Not a script of its own.

-- Returns Redis's time in whole ms, and with its fraction.
local function read_time()
  local time = redis.call('TIME')
  local exact = time[1] * 1000 + time[2] / 1000
  return math.floor(exact), exact
end

-- Returns all digits of a whole number: Lua and Redis would write a large one with an exponent.
local function to_text(number) return string.format('%.0f', number) end

-- Stops a gate whose Redis has lost orders that it accepted: without a state nothing is sold, and a sweep rebuilds the
-- gate (G16). The last order that it is known to have accepted has this epoch and sequence.
local function stop_gate(gate, epoch, sequence)
  redis.call('HDEL', gate, 'state')
  redis.call('HSET', gate, 'stopped', epoch .. ' ' .. sequence)
end

-- Appends elements to a reply.
local function append(reply, ...)
  for _, element in ipairs({ ... }) do reply[#reply + 1] = element end
end
