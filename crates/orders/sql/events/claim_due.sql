UPDATE events
SET attempts = attempts + 1, next_try_at = CAST(?1 AS BIGINT) + CAST(?3 AS BIGINT)
WHERE state = 'waiting' AND next_try_at <= ?1 AND (order_no, step) IN (
  SELECT d.order_no, d.step
  FROM events d
  WHERE d.state = 'waiting' AND d.next_try_at <= ?1 AND NOT EXISTS (
    SELECT 1
    FROM events e
    WHERE e.order_no = d.order_no AND e.step < d.step AND e.state = 'waiting'
  )
  ORDER BY d.next_try_at, d.order_no
  LIMIT CAST(?2 AS BIGINT)
)
RETURNING order_no, status, reason, pay_by, paid_at, happened_at, attempts
