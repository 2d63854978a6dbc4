INSERT INTO orders (
  order_no, activity, sku, user_id, quantity, amount, currency, status, live, created_at, updated_at
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'expired', 0, ?8, ?9)
ON CONFLICT (order_no) DO NOTHING
