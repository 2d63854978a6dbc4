SELECT order_no, entry, at, provider, session, payment, id, amount, currency, state
FROM (
  SELECT
    o.order_no, 'payment' AS entry, o.paid_at AS at, o.provider, COALESCE(s.session, '') AS session, o.payment,
    '' AS id, o.amount, o.currency, 'paid' AS state
  FROM orders o
  LEFT JOIN sessions s ON s.order_no = o.order_no
  WHERE o.order_no IN ({orders}) AND o.payment <> ''
  UNION ALL
  SELECT p.order_no, 'second_payment', {received_at}, p.provider, '', p.payment, '', p.amount, p.currency, 'paid'
  FROM overpayments p
  WHERE p.order_no IN ({orders})
  UNION ALL
  SELECT
    overpayments.order_no, 'refund', 0, overpayments.provider, '', overpayments.payment, overpayments.refund,
    overpayments.amount - {rest_of_overpayments}, overpayments.currency, overpayments.state
  FROM overpayments
  WHERE overpayments.order_no IN ({orders})
  UNION ALL
  SELECT
    refunds.order_no, 'refund', refunds.requested_at, o.provider, '', refunds.payment, refunds.refund,
    refunds.amount - {rest_of_refunds}, refunds.currency, refunds.state
  FROM refunds
  JOIN orders o ON o.order_no = refunds.order_no
  WHERE refunds.order_no IN ({orders})
  UNION ALL
  SELECT
    c.order_no, 'refund', c.requested_at, o.provider, '', c.payment, c.refund, c.amount, c.currency, c.state
  FROM refund_parts c
  JOIN orders o ON o.order_no = c.order_no
  WHERE c.order_no IN ({orders})
  UNION ALL
  -- Refunds that were made at the provider. Of Stripe's the ledger has the sum, with the parts that Stripe accepted.
  SELECT
    t.order_no, 'refund', 0, COALESCE(p.provider, o.provider), '', t.payment, t.refund,
    t.amount - CASE WHEN t.refund <> '' THEN 0 ELSE (
      SELECT CAST(COALESCE(SUM(c.amount), 0) AS BIGINT)
      FROM refund_parts c
      WHERE c.payment = t.payment AND c.state <> 'requested'
    ) END,
    o.currency, 'confirmed'
  FROM partial_refunds t
  JOIN orders o ON o.order_no = t.order_no
  LEFT JOIN overpayments p ON p.payment = t.payment
  WHERE t.order_no IN ({orders}) AND NOT EXISTS (
    SELECT 1
    FROM refund_parts c
    WHERE c.payment = t.payment AND c.refund = t.refund AND c.refund <> ''
  )
  UNION ALL
  SELECT d.order_no, 'dispute', d.opened_at, d.provider, '', d.payment, d.dispute, d.amount, d.currency, d.status
  FROM disputes d
  WHERE d.order_no IN ({orders})
) e
WHERE amount > 0
ORDER BY order_no, payment, CASE entry WHEN 'refund' THEN 1 WHEN 'dispute' THEN 2 ELSE 0 END, at, id
