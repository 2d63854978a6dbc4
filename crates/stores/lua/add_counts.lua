-- Adds counts of an instance to those of all (G20).
--
-- KEYS  1 counts
-- ARGV  pairs of a field and a number; a field that begins with `last ` gets the time instead
-- Reply added

local now = read_time()
for i = 1, #ARGV, 2 do
  if string.sub(ARGV[i], 1, 5) == 'last ' then
    redis.call('HSET', KEYS[1], ARGV[i], now)
  else
    redis.call('HINCRBY', KEYS[1], ARGV[i], ARGV[i + 1])
  end
end
return { 'added' }
