UPDATE sessions
SET
  attempts = attempts + 1,
  next_ask_at = CAST(?1 AS BIGINT) + 5000 * (attempts + 1) * (attempts + 1)
WHERE state = 'open' AND next_ask_at <= CAST(?1 AS BIGINT) AND order_no IN (
  SELECT s.order_no
  FROM sessions s
  JOIN orders o ON o.order_no = s.order_no
  WHERE s.state = 'open' AND s.next_ask_at <= CAST(?1 AS BIGINT) AND (
    o.status IN ('cancelled', 'expired')
    OR (o.status = 'pending_payment' AND o.pay_by <= CAST(?1 AS BIGINT))
  )
  ORDER BY s.next_ask_at
  LIMIT CAST(?2 AS BIGINT)
)
RETURNING order_no, provider, session
