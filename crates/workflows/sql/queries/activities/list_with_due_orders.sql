SELECT a.id
FROM activities a
WHERE a.state <> 'draft' AND (
  EXISTS (
    SELECT 1 FROM orders o WHERE o.activity = a.id AND o.status = 'pending_payment' AND o.pay_by <= CAST(?1 AS BIGINT)
  )
  OR EXISTS (
    SELECT 1
    FROM orders o
    WHERE o.activity = a.id AND o.unsettled_since > 0 AND o.unsettled_since <= CAST(?2 AS BIGINT)
  )
)
