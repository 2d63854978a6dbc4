SELECT {order_numbers}
FROM (
  SELECT d.order_no
  FROM orders d
  WHERE d.activity = ?3 AND {is_due}
  ORDER BY d.pay_by
  LIMIT CAST(?4 AS BIGINT)
) AS o
