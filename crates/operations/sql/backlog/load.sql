SELECT
  (SELECT COUNT(*) FROM (SELECT next_try_at FROM events WHERE state = 'waiting' LIMIT 100000) AS counted),
  -- Those that are due first are the oldest, but for some that failed.
  (
    SELECT COALESCE(MIN(first.happened_at), 0)
    FROM (SELECT happened_at FROM events WHERE state = 'waiting' ORDER BY next_try_at LIMIT 1000) AS first
  ),
  (SELECT COUNT(*) FROM (SELECT 1 FROM events WHERE state = 'failed' AND state <> 'waiting' LIMIT 100000) AS failed),
  {refunds},
  (
    SELECT COALESCE(MIN(opened.requested_at), 0)
    FROM (
      SELECT requested_at FROM refunds WHERE state <> 'confirmed'
      UNION ALL
      SELECT requested_at FROM refund_parts WHERE state <> 'confirmed'
    ) AS opened
  ),
  {stuck_refunds},
  (SELECT COUNT(*) FROM callbacks WHERE outcome = '' AND attempts >= 3),
  (
    SELECT COUNT(*)
    FROM (SELECT last_error, attempts FROM sessions WHERE state = 'open' ORDER BY next_ask_at LIMIT 1000) AS asked
    WHERE asked.last_error <> '' AND asked.attempts >= 3
  ),
  (SELECT COUNT(*) FROM callbacks WHERE outcome NOT IN {unparked_outcomes}),
  (SELECT COUNT(*) FROM dead_letters WHERE replayed_at < died_at),
  (SELECT COUNT(*) FROM rebuilds WHERE lost_at > 0 OR due_at <= CAST(?1 AS BIGINT) - 60000),
  (SELECT CAST(COALESCE(SUM(losses), 0) AS BIGINT) FROM epochs),
  (SELECT COUNT(*) FROM disputes WHERE status = 'open' AND order_no <> '')
