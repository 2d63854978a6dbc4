SELECT
  d.outcome,
  d.is_overpayment,
  CASE WHEN EXISTS (
    SELECT 1
    FROM callbacks c
    WHERE c.order_no = ?1 AND c.type = 'refund.succeeded' AND c.outcome IN {early}
  ) THEN 1 ELSE 0 END,
  {columns}
FROM callback_decisions d
LEFT JOIN orders ON orders.order_no = ?1
WHERE d.id = ?2
