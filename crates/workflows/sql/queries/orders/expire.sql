UPDATE orders
SET status = 'expired', live = 0, reason = 'not_paid_in_time', updated_at = ?1, unsettled_since = ?1
WHERE status = 'pending_payment' AND {lease_condition} AND order_no IN (
  SELECT d.order_no
  FROM orders d
  WHERE d.activity = ?4 AND d.status = 'pending_payment' AND d.pay_by <= ?1 AND NOT EXISTS (
    SELECT 1
    FROM sessions s
    WHERE s.order_no = d.order_no AND s.state = 'open' AND d.pay_by > CAST(?3 AS BIGINT)
  )
  ORDER BY d.pay_by
  LIMIT CAST(?2 AS BIGINT)
  {lock_clause}
)
RETURNING {columns}
