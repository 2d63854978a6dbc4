SELECT w.kind, {activity_of}, w.reason, COUNT(*), MIN(w.since), MIN(w.order_no), MIN(w.callback)
FROM (
  SELECT *
  FROM (
    SELECT 'parked_callback' AS kind, order_no, outcome AS reason, received_at AS since, id AS callback
    FROM callbacks
    WHERE outcome NOT IN {unparked_outcomes}
    ORDER BY received_at
    LIMIT 1000
  ) AS parked
  UNION ALL
  SELECT 'stuck_callback', order_no, '', received_at, id
  FROM (SELECT * FROM callbacks WHERE outcome = '' ORDER BY next_try_at LIMIT 1000) AS unprocessed
  WHERE attempts >= 3
  UNION ALL
  SELECT *
  FROM (
    SELECT 'dead_letter', order_no, reason, died_at, ''
    FROM dead_letters
    WHERE replayed_at < died_at
    ORDER BY died_at, order_no
    LIMIT 1000
  ) AS letters
  UNION ALL
  SELECT 'failed_refund', order_no, CASE payment WHEN 'lost' THEN 'payment_lost' ELSE '' END, requested_at, ''
  FROM (SELECT * FROM refunds WHERE state <> 'confirmed' ORDER BY next_try_at LIMIT 1000) AS open
  WHERE last_error <> ''
  UNION ALL
  SELECT 'failed_refund', order_no, '', requested_at, ''
  FROM (SELECT * FROM refund_parts WHERE state <> 'confirmed' ORDER BY next_try_at LIMIT 1000) AS parts
  WHERE last_error <> ''
  UNION ALL
  SELECT
    'overpayment', p.order_no, '',
    COALESCE(
      (SELECT MIN(c.received_at) FROM callbacks c WHERE c.order_no = p.order_no AND c.payment = p.payment),
      p.next_try_at
    ),
    ''
  FROM (SELECT * FROM overpayments WHERE state <> 'confirmed' ORDER BY next_try_at LIMIT 1000) AS p
  WHERE p.last_error <> ''
  UNION ALL
  SELECT 'unanswered_session', order_no, '', opened_at, ''
  FROM (SELECT * FROM sessions WHERE state = 'open' ORDER BY next_ask_at LIMIT 1000) AS asked
  WHERE last_error <> '' AND attempts >= 3
  UNION ALL
  SELECT *
  FROM (
    SELECT 'open_dispute', order_no, reason, opened_at, ''
    FROM disputes
    WHERE status = 'open' AND order_no <> ''
    ORDER BY opened_at
    LIMIT 1000
  ) AS disputed
  UNION ALL
  SELECT *
  FROM (
    SELECT 'failed_event', subject, '', happened_at, ''
    FROM events
    WHERE state = 'failed' AND state <> 'waiting' AND subject <> ''
    ORDER BY happened_at
    LIMIT 1000
  ) AS failed
  UNION ALL
  SELECT 'late_event', subject, '', happened_at, ''
  FROM (SELECT * FROM events WHERE state = 'waiting' ORDER BY next_try_at LIMIT 1000) AS waiting
  WHERE happened_at <= CAST(?1 AS BIGINT) - 900000
  UNION ALL
  SELECT 'stopped_gate', activity, '', lost_at, ''
  FROM rebuilds
  WHERE lost_at > 0
  UNION ALL
  SELECT 'unfinished_rebuild', activity, '', due_at, ''
  FROM rebuilds
  WHERE lost_at = 0 AND due_at <= CAST(?1 AS BIGINT) - 60000
) w
GROUP BY w.kind, {activity_of}, w.reason
ORDER BY MIN(w.since)
LIMIT 100
