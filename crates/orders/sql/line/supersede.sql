-- CROSS JOIN: SQLite begins with the rows then, and looks each up, instead of reading the whole line for each of them.
UPDATE line_entries SET state = 'ended', reason = 'left_line', updated_at = CAST(?3 AS BIGINT)
WHERE state = 'waiting' AND order_no IN (
  SELECT earlier.order_no FROM {rows} CROSS JOIN line_entries earlier
  WHERE earlier.activity = ?2 AND earlier.sku = {sku} AND earlier.user_id = {user_id} AND earlier.state = 'waiting'
    AND {state} = 'waiting'
    AND ({epoch}, {sequence}, {order_no}) > (earlier.epoch, earlier.sequence, earlier.order_no)
)
