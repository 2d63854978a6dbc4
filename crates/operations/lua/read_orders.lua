-- Reads the state of many orders, as far as they belong to an epoch (G5).
--
-- KEYS  order records
-- ARGV  1 epoch
-- Reply found, then for each order: status, "1" if it holds units, checkout_url; three times "" if it has no record of
--       this epoch

local reply = { 'found' }
for _, key in ipairs(KEYS) do
  local order = redis.call('HMGET', key, 'epoch', 'status', 'live', 'checkout_url')
  local holds_units = order[3] == '1' or order[2] == 'pending_payment'
  if order[1] == ARGV[1] then
    append(reply, order[2], holds_units and '1' or '', order[4])
  else
    append(reply, '', '', '')
  end
end
return reply
