WITH counted AS (
  SELECT sku, status, live, COUNT(*) AS orders, SUM(quantity) AS units
  FROM orders
  WHERE activity = ?1 AND order_no > CAST(?1 AS TEXT) || '.' AND order_no < CAST(?1 AS TEXT) || '/'
  GROUP BY sku, status, live
), differences AS (
  SELECT sku, SUM(orders) AS orders, SUM(units) AS units
  FROM (
    SELECT sku, status, live, orders, units
    FROM order_counts
    WHERE activity = ?1
    UNION ALL
    SELECT sku, status, live, -orders, -units
    FROM counted
  ) d
  GROUP BY sku, status, live
), holders AS (
  SELECT sku, SUM(quantity) AS units
  FROM orders
  WHERE activity = ?1 AND live = 1
  GROUP BY sku, user_id
)
SELECT
  s.sku,
  s.total,
  s.live,
  (SELECT CAST(COALESCE(SUM(c.units), 0) AS BIGINT) FROM counted c WHERE c.sku = s.sku AND c.live = 1),
  (
    SELECT CAST(COALESCE(SUM(c.units), 0) AS BIGINT)
    FROM counted c
    WHERE c.sku = s.sku AND c.status = 'pending_payment'
  ),
  (SELECT CAST(COALESCE(MAX(h.units), 0) AS BIGINT) FROM holders h WHERE h.sku = s.sku),
  (SELECT CAST(COALESCE(SUM(ABS(d.orders) + ABS(d.units)), 0) AS BIGINT) FROM differences d WHERE d.sku = s.sku)
FROM skus s
WHERE s.activity = ?1
