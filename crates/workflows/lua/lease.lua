-- Takes, keeps or gives up a lease (F2): the owner is a random text, so nobody ends somebody else's.
--
-- KEYS  1 lease
-- ARGV  1 owner, 2 milliseconds to hold it (0 gives it up)
-- Reply held, other

local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then return { 'other' } end
if ARGV[2] == '0' then
  redis.call('DEL', KEYS[1])
  return { 'other' }
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return { 'held' }
