UPDATE activities
SET state = 'erasing', version = version + 1
WHERE state IN ('published', 'paused', 'closed') AND ends_at <= ?1 AND updated_at <= ?1 AND id IN (
  WITH waiting AS (
    SELECT DISTINCT {activity_of} AS activity
    FROM (
      SELECT order_no FROM callbacks WHERE outcome = ''
      UNION ALL SELECT order_no FROM callbacks WHERE outcome NOT IN {unparked_outcomes}
      UNION ALL SELECT order_no FROM refunds WHERE state <> 'confirmed'
      UNION ALL SELECT order_no FROM overpayments WHERE state <> 'confirmed'
      UNION ALL SELECT order_no FROM refund_parts WHERE state <> 'confirmed'
      UNION ALL SELECT order_no FROM disputes WHERE status = 'open'
      UNION ALL SELECT subject FROM events WHERE state = 'waiting'
    ) w
  )
  SELECT a.id
  FROM activities a
  WHERE a.state IN ('published', 'paused', 'closed') AND a.ends_at <= ?1 AND a.updated_at <= ?1
    AND NOT EXISTS (
      SELECT 1
      FROM order_counts c
      WHERE c.activity = a.id AND c.status IN ('pending_payment', 'refunding')
      GROUP BY c.sku, c.status, c.live
      HAVING SUM(c.orders) <> 0
    )
    AND NOT EXISTS (SELECT 1 FROM waiting WHERE waiting.activity = a.id)
  ORDER BY a.ends_at
  LIMIT CAST(?2 AS BIGINT)
)
