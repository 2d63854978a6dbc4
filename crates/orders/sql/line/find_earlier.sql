SELECT found.order_no FROM (
  -- One lookup for each row: joined, a planner without statistics reads the whole line for each of them.
  SELECT (
    SELECT earlier.order_no FROM line_entries earlier
    WHERE earlier.activity = ?2 AND earlier.sku = {sku} AND earlier.user_id = {user_id} AND earlier.state = 'waiting'
      AND ({epoch}, {sequence}, {order_no}) > (earlier.epoch, earlier.sequence, earlier.order_no)
  ) AS order_no
  FROM {rows}
  WHERE {state} = 'waiting'
) found
WHERE found.order_no IS NOT NULL
