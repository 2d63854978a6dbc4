WITH named AS (SELECT order_no, payment FROM orders WHERE order_no = ?3 {lock})
INSERT INTO overpayments (payment, provider, order_no, amount, currency, next_try_at, state, refund)
SELECT ?1, ?2, order_no, ?4, ?5, ?6, 'confirmed', ?7
FROM named
WHERE payment NOT IN (?1, ?8)
ON CONFLICT DO NOTHING
RETURNING payment
