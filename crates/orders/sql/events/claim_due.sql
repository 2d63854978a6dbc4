UPDATE events
SET attempts = attempts + 1, last_try_at = CAST(?1 AS BIGINT), next_try_at = CAST(?1 AS BIGINT) + CAST(?3 AS BIGINT)
WHERE state = 'waiting' AND next_try_at <= ?1 AND (subject, step) IN (
  SELECT d.subject, d.step
  FROM events d
  WHERE d.state = 'waiting' AND d.next_try_at <= ?1 AND NOT EXISTS (
    SELECT 1
    FROM events e
    WHERE e.subject = d.subject AND e.step < d.step AND e.state = 'waiting'
  )
  ORDER BY d.next_try_at, d.subject
  LIMIT CAST(?2 AS BIGINT)
)
RETURNING subject, step, status, reason, pay_by, paid_at, refunded, happened_at, attempts
