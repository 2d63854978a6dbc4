SELECT
  s.sku,
  s.total,
  s.live,
  (
    SELECT CAST(COALESCE(SUM(o.quantity), 0) AS BIGINT)
    FROM orders o
    WHERE o.activity = s.activity AND o.sku = s.sku AND o.live = 1
  ),
  (
    SELECT CAST(COALESCE(SUM(o.quantity), 0) AS BIGINT)
    FROM orders o
    WHERE o.activity = s.activity AND o.sku = s.sku AND o.live = 1 AND o.status = 'pending_payment'
  ),
  (
    SELECT CAST(COALESCE(MAX(h.units), 0) AS BIGINT)
    FROM (
      SELECT SUM(o.quantity) AS units
      FROM orders o
      WHERE o.activity = s.activity AND o.sku = s.sku AND o.live = 1
      GROUP BY o.user_id
    ) h
  )
FROM skus s
WHERE s.activity = ?1
