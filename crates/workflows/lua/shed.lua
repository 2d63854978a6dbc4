-- Tells a gate whether load is shed (B9). It makes none where there is none: that is only ever done by a rebuild.
--
-- KEYS  1 gate
-- ARGV  1 "1" where load is shed, else "0"
-- Reply told; absent (there is no gate)

if redis.call('HEXISTS', KEYS[1], 'epoch') == 0 then return { 'absent' } end
redis.call('HSET', KEYS[1], 'shed', ARGV[1])
return { 'told' }
