SELECT
  o.status,
  o.live,
  o.pay_by,
  o.paid_at,
  o.reason,
  o.refunded,
  COALESCE((SELECT p.epoch FROM epochs p WHERE p.activity = ?1), 0),
  {order_numbers}
FROM (
  SELECT order_no, status, live, pay_by, paid_at, reason, refunded
  FROM orders
  WHERE activity = ?1 AND unsynced_since > 0 AND unsynced_since <= ?2
  ORDER BY unsynced_since
  LIMIT CAST(?3 AS BIGINT)
) AS o
GROUP BY o.status, o.live, o.pay_by, o.paid_at, o.reason, o.refunded
