UPDATE callbacks
SET
  -- The ledger decides again.
  decided_at = decided_at,
  order_no = COALESCE((
    SELECT MIN(p.order_no)
    FROM (
      SELECT order_no, provider FROM orders WHERE payment = ?2 AND payment <> ''
      UNION
      SELECT order_no, provider FROM overpayments WHERE payment = ?2
    ) p
    WHERE p.provider IN (CAST(?3 AS TEXT), '')
    HAVING COUNT(*) = 1
  ), '')
WHERE id = ?1
RETURNING {columns}
