UPDATE sessions
SET
  last_error = ?2,
  state = CASE WHEN attempts >= CAST(?3 AS BIGINT) THEN 'closed' ELSE state END
WHERE order_no = ?1 AND session = ?4 AND state = 'open'
