saved_at <= ?1 AND EXISTS (
  SELECT 1
  FROM orders o
  WHERE o.order_no = addresses.order_no AND o.updated_at <= ?1 AND o.status NOT IN ('pending_payment', 'refunding')
)
