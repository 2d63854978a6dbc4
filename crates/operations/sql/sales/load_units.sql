SELECT
  s.activity,
  CASE WHEN MIN(s.total) < 0 THEN -1 ELSE CAST(SUM(s.total) AS BIGINT) END,
  CAST(SUM(s.live) AS BIGINT),
  (
    SELECT CAST(COALESCE(SUM(c.units), 0) AS BIGINT)
    FROM order_counts c
    WHERE c.activity = s.activity AND c.status = 'pending_payment'
  )
FROM skus s
WHERE s.activity IN ({json_values})
GROUP BY s.activity
