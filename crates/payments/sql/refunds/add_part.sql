INSERT INTO partial_refunds (payment, refund, order_no, amount)
SELECT ?1, ?2, ?3, CAST(?4 AS BIGINT)
WHERE NOT EXISTS (
  SELECT 1
  FROM callbacks c
  WHERE c.order_no = ?3 AND c.payment = ?1 AND c.type = 'refund.failed' AND c.refund = ?5 AND c.refund <> ''
) AND NOT EXISTS (
  SELECT 1
  FROM {table} r
  WHERE r.order_no = ?3 AND r.payment = ?1 AND ?5 <> ''
    AND REPLACE(r.failed_refunds, '[' || CAST(?5 AS TEXT) || ']', '') <> r.failed_refunds
)
ON CONFLICT (payment, refund) DO UPDATE SET
  amount = CASE WHEN excluded.amount > partial_refunds.amount THEN excluded.amount ELSE partial_refunds.amount END
