SELECT
  {positions},
  COALESCE((SELECT p.epoch FROM epochs p WHERE p.activity = ?2), 0),
  o.status,
  o.live,
  o.pay_by,
  o.paid_at,
  o.reason,
  o.refunded
FROM orders AS o
JOIN {json_rows} ON o.order_no = e.value
GROUP BY o.status, o.live, o.pay_by, o.paid_at, o.reason, o.refunded
