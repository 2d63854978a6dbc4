SELECT
  s.sku,
  s.total,
  (
    SELECT CAST(COALESCE(SUM(quantity), 0) AS BIGINT)
    FROM orders o
    WHERE o.activity = s.activity AND o.sku = s.sku AND live = 1 AND status = 'pending_payment'
  ),
  s.live
FROM skus s
WHERE s.activity = ?1
