INSERT INTO rehearsal_payments (payment, provider, order_no, amount, currency, refund)
SELECT o.payment, o.provider, o.order_no, o.amount, o.currency, COALESCE(r.refund, '')
FROM orders o
LEFT JOIN refunds r ON r.order_no = o.order_no
WHERE o.order_no IN ({order_numbers}) AND o.payment <> '' AND o.provider <> 'sandbox' AND o.amount > 0
  AND o.activity IN (SELECT activity FROM rehearsals)
ON CONFLICT DO NOTHING
