INSERT INTO callbacks (
  id, type, order_no, payment, amount, currency, received_at, decided_at, refund, session, provider, next_try_at
)
SELECT
  ?1, ?2, ?3, ?4, CAST(?5 AS BIGINT), ?6, {now}, {now}, ?7, ?8, ?9, {now} + {first_try_after_ms}
WHERE {condition}
ON CONFLICT (id) DO UPDATE SET decided_at = excluded.decided_at
RETURNING {columns}, decided_at
