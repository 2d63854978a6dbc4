UPDATE {table}
SET
  state = 'requested',
  failures = failures + 1,
  refund = '',
  failed_refunds = CASE
    WHEN CAST(?3 AS TEXT) = '' THEN failed_refunds
    ELSE failed_refunds || '[' || CAST(?3 AS TEXT) || ']'
  END,
  next_try_at = ?6,
  last_error = 'the provider said no'
WHERE order_no = ?1 AND payment = ?2 AND amount = ?4 AND currency = ?5
  AND state <> 'confirmed' AND refund IN (CAST(?3 AS TEXT), '')
  AND REPLACE(failed_refunds, '[' || CAST(?3 AS TEXT) || ']', '') = failed_refunds
RETURNING payment
