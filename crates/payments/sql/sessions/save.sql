INSERT INTO sessions (order_no, provider, session, url, attempt, opened_at, next_ask_at, state)
-- One time: PostgreSQL would read the clock at each place.
WITH clock AS MATERIALIZED (SELECT {now} AS now)
SELECT
  o.order_no,
  ?2,
  ?3,
  ?4,
  CAST(?5 AS BIGINT),
  clock.now,
  -- The order's time to pay, as the trigger that starts the payment extends it; now if it starts none.
  CASE
    WHEN o.status = 'pending_payment' AND o.pay_by > clock.now
    THEN o.pay_by + CASE WHEN o.extended = 0 THEN a.pay_extension_ms ELSE 0 END
    ELSE clock.now
  END,
  CASE
    WHEN EXISTS (
      SELECT 1
      FROM callbacks c
      WHERE c.order_no = ?1 AND c.session = ?3 AND c.type = 'session.ended'
    ) THEN 'closed'
    ELSE 'open'
  END
FROM orders o
JOIN activities a ON a.id = o.activity
CROSS JOIN clock
WHERE o.order_no = ?1
{lock}
ON CONFLICT (order_no) DO UPDATE SET
  provider = excluded.provider,
  session = excluded.session,
  url = excluded.url,
  attempt = excluded.attempt,
  opened_at = excluded.opened_at,
  next_ask_at = excluded.next_ask_at,
  state = excluded.state,
  attempts = 0,
  last_error = ''
WHERE sessions.state = 'closed' AND sessions.attempt < excluded.attempt
RETURNING url, next_ask_at, CASE WHEN state = 'open' AND next_ask_at > opened_at THEN 1 ELSE 0 END
