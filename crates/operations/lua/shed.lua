-- Sets or clears a gate's load-shedding flag (B9). Does not create a gate: only a rebuild may do that.
--
-- KEYS  1 gate
-- ARGV  1 "1" to shed load, else "0"
-- Reply done | no_gate

if redis.call('HEXISTS', KEYS[1], 'epoch') == 0 then return { 'no_gate' } end
redis.call('HSET', KEYS[1], 'shed', ARGV[1])
return { 'done' }
