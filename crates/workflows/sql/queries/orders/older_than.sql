AND (created_at, order_no) < (
  SELECT b.created_at, b.order_no
  FROM orders b
  WHERE b.order_no = ?3 AND b.user_id = ?1
)
