INSERT INTO refund_parts (id, order_no, payment, amount, currency, requested_at, next_try_at)
-- One time: PostgreSQL would read the clock at each place.
WITH clock AS MATERIALIZED (SELECT {now} AS now)
SELECT ?1, o.order_no, o.payment, CAST(?3 AS BIGINT), o.currency, clock.now, clock.now
FROM orders o
CROSS JOIN clock
WHERE o.order_no = ?2 AND o.status = 'paid'
RETURNING id
