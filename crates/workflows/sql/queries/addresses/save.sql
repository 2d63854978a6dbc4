INSERT INTO addresses (order_no, sealed, saved_at)
SELECT order_no, CAST(?2 AS TEXT), CAST(?3 AS BIGINT)
FROM orders
WHERE order_no = ?1 AND status = 'pending_payment' AND pay_by > CAST(?3 AS BIGINT)
ON CONFLICT (order_no) DO UPDATE SET sealed = excluded.sealed, saved_at = excluded.saved_at
RETURNING order_no
