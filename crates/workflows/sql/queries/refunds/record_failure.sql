UPDATE {table}
SET
  state = 'requested',
  failures = failures + 1,
  refund = '',
  next_try_at = ?4,
  last_error = 'the provider said no'
WHERE order_no = ?1 AND payment = ?2 AND state <> 'confirmed' AND refund IN (CAST(?3 AS TEXT), '')
RETURNING payment
