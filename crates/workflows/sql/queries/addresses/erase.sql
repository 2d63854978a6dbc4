DELETE FROM addresses
WHERE order_no IN (
  SELECT a.order_no
  FROM addresses a
  JOIN orders o ON o.order_no = a.order_no
  WHERE a.saved_at <= ?1 AND o.updated_at <= ?1 AND o.status NOT IN ('pending_payment', 'refunding')
  ORDER BY a.saved_at
  LIMIT CAST(?2 AS BIGINT)
)
RETURNING order_no
