INSERT INTO addresses (order_no, sealed, saved_at, item, language)
SELECT o.order_no, CAST(?2 AS TEXT), {now}, '', ''
FROM orders o
WHERE o.order_no = ?1 AND o.status IN ('pending_payment', 'cancelled', 'expired')
ON CONFLICT (order_no) DO UPDATE SET sealed = excluded.sealed, saved_at = excluded.saved_at
