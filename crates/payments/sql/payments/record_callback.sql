INSERT INTO callbacks (
  id, type, order_no, payment, amount, currency, received_at, decided_at, refund, session, provider, next_try_at
)
SELECT
  ?1, ?2, ?3, ?4, CAST(?5 AS BIGINT), ?6, CAST(?7 AS BIGINT), CAST(?7 AS BIGINT), ?8, ?9, ?10, CAST(?11 AS BIGINT)
WHERE {condition}
ON CONFLICT (id) DO UPDATE SET decided_at = excluded.decided_at
RETURNING {columns}
