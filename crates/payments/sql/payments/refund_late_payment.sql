UPDATE orders
SET
  status = 'refunding',
  reason = '{reason}',
  payment = ?2,
  {provider},
  paid_at = ?3,
  updated_at = ?3,
  unsynced_since = ?3
WHERE order_no = ?1 AND status IN ('cancelled', 'expired')
RETURNING {columns}
