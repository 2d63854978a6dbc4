INSERT INTO rehearsal_payments (payment, provider, order_no, amount, currency, refund)
SELECT p.payment, p.provider, p.order_no, p.amount, p.currency, p.refund
FROM overpayments p
WHERE p.order_no > ?2 AND p.order_no < ?3 AND p.state = 'confirmed' AND p.provider <> 'sandbox'
  AND EXISTS (SELECT 1 FROM rehearsals r WHERE r.activity = ?1)
ON CONFLICT DO NOTHING
