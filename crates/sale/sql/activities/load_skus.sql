SELECT
  s.sku,
  s.total,
  (
    SELECT CAST(COALESCE(SUM(c.units), 0) AS BIGINT)
    FROM order_counts c
    WHERE c.activity = s.activity AND c.sku = s.sku AND c.status = 'pending_payment'
  ),
  s.live
FROM skus s
WHERE s.activity = ?1
