UPDATE orders
SET
  status = 'refunded',
  updated_at = ?2,
  unsynced_since = ?2,
  live = CASE
    WHEN (SELECT a.refund_restocks FROM activities a WHERE a.id = orders.activity) = 1 THEN 0
    ELSE live
  END
WHERE order_no = ?1 AND status = 'refunding'
RETURNING {columns}
