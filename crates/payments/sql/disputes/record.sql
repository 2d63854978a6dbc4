INSERT INTO disputes (dispute, provider, order_no, payment, amount, currency, reason, status, opened_at, changed_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
ON CONFLICT (dispute) DO UPDATE
SET
  order_no = CASE WHEN disputes.order_no = '' THEN excluded.order_no ELSE disputes.order_no END,
  amount = excluded.amount,
  currency = excluded.currency,
  reason = excluded.reason,
  status = excluded.status,
  changed_at = excluded.changed_at
WHERE excluded.changed_at > disputes.changed_at
  OR excluded.changed_at = disputes.changed_at AND disputes.status = 'open'
