UPDATE line_entries SET state = 'ended', reason = 'left_line', updated_at = CAST(?3 AS BIGINT)
WHERE activity = ?2 AND state = 'waiting' AND EXISTS (
  SELECT 1 FROM {rows}
  WHERE {state} = 'waiting' AND {sku} = line_entries.sku AND {user_id} = line_entries.user_id
    AND ({epoch}, {sequence}, {order_no}) > (line_entries.epoch, line_entries.sequence, line_entries.order_no)
)
