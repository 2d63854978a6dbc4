SELECT a.id
FROM activities a
WHERE a.state <> 'draft' AND (
  (
    SELECT o.pay_by
    FROM orders o
    WHERE o.activity = a.id AND o.status = 'pending_payment'
    ORDER BY o.pay_by
    LIMIT 1
  ) <= CAST(?1 AS BIGINT)
  OR (
    SELECT o.unsynced_since
    FROM orders o
    WHERE o.activity = a.id AND o.unsynced_since > 0
    ORDER BY o.unsynced_since
    LIMIT 1
  ) <= CAST(?2 AS BIGINT)
)
