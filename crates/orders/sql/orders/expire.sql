UPDATE orders
SET status = 'expired', live = 0, reason = 'not_paid_in_time', updated_at = ?1, unsynced_since = ?1
WHERE status = 'pending_payment' AND {lease_condition} AND order_no IN (
  SELECT d.order_no
  FROM orders d
  WHERE d.order_no IN ({json_values}) AND {is_due}
  ORDER BY d.pay_by
  {lock_clause}
)
