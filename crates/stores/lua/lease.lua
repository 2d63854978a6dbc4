-- Acquires, extends or releases a lease (F2). The owner is a random text, so that a worker cannot release the lease of
-- another.
--
-- KEYS  1 lease
-- ARGV  1 owner, 2 duration (ms; 0 releases the lease)
-- Reply held | other (another owner holds it, or it was released)

local owner, duration = redis.call('GET', KEYS[1]), tonumber(ARGV[2])
if owner and owner ~= ARGV[1] then return { 'other' } end
if duration == 0 then
  redis.call('DEL', KEYS[1])
  return { 'other' }
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return { 'held' }
