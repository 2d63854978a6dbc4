UPDATE orders
SET
  checkout_url = ?2,
  pay_by = pay_by + CASE
    WHEN extended = 0 THEN (SELECT a.pay_extension_ms FROM activities a WHERE a.id = orders.activity)
    ELSE 0
  END,
  extended = 1,
  updated_at = ?3,
  unsynced_since = ?3
WHERE order_no = ?1 AND status = 'pending_payment' AND pay_by > ?3
