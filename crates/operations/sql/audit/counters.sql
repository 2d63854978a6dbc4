SELECT
  s.activity,
  s.sku,
  s.total,
  s.live,
  CAST(COALESCE(SUM(CASE WHEN c.live = 1 THEN c.units END), 0) AS BIGINT),
  CAST(COALESCE(SUM(CASE WHEN c.status = 'pending_payment' THEN c.units END), 0) AS BIGINT),
  CAST(0 AS BIGINT),
  CAST(0 AS BIGINT)
FROM skus s
LEFT JOIN order_counts c ON c.activity = s.activity AND c.sku = s.sku
WHERE s.activity IN ({json_values})
GROUP BY s.activity, s.sku, s.total, s.live
