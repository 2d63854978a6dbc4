INSERT INTO sale_history (activity, sku, recorded_at, units_left, held, sold)
SELECT n.activity, n.sku, CAST(?1 AS BIGINT), n.units_left, n.held, n.live - n.held
FROM (
  SELECT
    s.activity,
    s.sku,
    s.live,
    CASE WHEN s.total < 0 THEN -1 ELSE s.total - s.live END AS units_left,
    (
      SELECT CAST(COALESCE(SUM(c.units), 0) AS BIGINT)
      FROM order_counts c
      WHERE c.activity = s.activity AND c.sku = s.sku AND c.status = 'pending_payment'
    ) AS held
  FROM skus s
  WHERE s.activity IN ({json_values})
) n
WHERE NOT EXISTS (
  SELECT 1
  FROM sale_history h
  WHERE h.activity = n.activity AND h.sku = n.sku
    AND h.units_left = n.units_left AND h.held = n.held AND h.sold = n.live - n.held
    AND h.recorded_at = (
      SELECT MAX(l.recorded_at)
      FROM sale_history l
      WHERE l.activity = n.activity AND l.sku = n.sku
    )
)
ON CONFLICT DO NOTHING
