INSERT INTO callbacks (
  id, type, order_no, payment, amount, currency, received_at, decided_at, refund, session, provider, next_try_at,
  other_session
)
SELECT
  ?1, ?2, ?3, ?4, CAST(?5 AS BIGINT), ?6, {now}, {now}, ?7, ?8, ?9, {now} + {first_try_after_ms},
  CASE WHEN ?8 <> '' AND ?2 IN ('payment.succeeded', 'payment.failed') AND EXISTS (
    SELECT 1
    FROM sessions s
    WHERE s.order_no = ?3 AND s.session <> ?8
  ) THEN 1 ELSE 0 END
WHERE ({condition})
ON CONFLICT (id) DO UPDATE SET decided_at = excluded.decided_at
RETURNING {columns}, decided_at
