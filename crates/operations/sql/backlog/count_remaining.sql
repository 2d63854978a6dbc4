SELECT
  (
    SELECT CAST(COALESCE(SUM((
      SELECT COUNT(*)
      FROM orders o
      WHERE o.activity = a.id AND o.status = 'pending_payment' AND o.pay_by <= CAST(?1 AS BIGINT)
    )), 0) AS BIGINT)
    FROM activities a
    WHERE (
      SELECT o.pay_by
      FROM orders o
      WHERE o.activity = a.id AND o.status = 'pending_payment'
      ORDER BY o.pay_by
      LIMIT 1
    ) <= CAST(?1 AS BIGINT)
  ),
  (
    SELECT CAST(COALESCE(SUM((
      SELECT COUNT(*)
      FROM orders o
      WHERE o.activity = a.id AND o.unsynced_since > 0 AND o.unsynced_since <= CAST(?2 AS BIGINT)
    )), 0) AS BIGINT)
    FROM activities a
    WHERE (
      SELECT o.unsynced_since
      FROM orders o
      WHERE o.activity = a.id AND o.unsynced_since > 0
      ORDER BY o.unsynced_since
      LIMIT 1
    ) <= CAST(?2 AS BIGINT)
  ),
  (SELECT COUNT(*) FROM callbacks WHERE outcome = ''),
  (SELECT COUNT(*) FROM refunds WHERE state <> 'confirmed')
