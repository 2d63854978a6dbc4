SELECT
  (SELECT COUNT(*) FROM orders WHERE status = 'pending_payment' AND pay_by <= ?1),
  (SELECT COUNT(*) FROM orders WHERE unsettled = 1),
  (SELECT COUNT(*) FROM callbacks WHERE outcome = ''),
  (SELECT COUNT(*) FROM refunds WHERE state <> 'confirmed')
