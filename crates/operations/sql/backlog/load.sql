SELECT
  (SELECT COUNT(*) FROM (SELECT next_try_at FROM events WHERE state = 'waiting' LIMIT 100000) AS counted),
  -- Those that are due first are the oldest, but for some that failed.
  (
    SELECT COALESCE(MIN(first.happened_at), 0)
    FROM (SELECT happened_at FROM events WHERE state = 'waiting' ORDER BY next_try_at LIMIT 1000) AS first
  ),
  {refunds},
  {stuck_refunds},
  (SELECT COUNT(*) FROM callbacks WHERE outcome NOT IN {unparked_outcomes}),
  (SELECT COUNT(*) FROM dead_letters WHERE replayed_at < died_at),
  (SELECT CAST(COALESCE(SUM(losses), 0) AS BIGINT) FROM epochs)
