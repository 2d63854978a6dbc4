SELECT 1
FROM {table} r
WHERE r.order_no = ?1 AND r.payment = ?2 AND r.currency = ?5 AND (
  CAST(?3 AS TEXT) <> '' AND (
    r.refund = CAST(?3 AS TEXT)
    OR REPLACE(r.failed_refunds, '[' || CAST(?3 AS TEXT) || ']', '') <> r.failed_refunds
  )
  OR r.state <> 'confirmed' AND CAST(?4 AS BIGINT) = r.amount - {own} - (
    SELECT COALESCE(SUM(p.amount), 0)
    FROM partial_refunds p
    WHERE p.payment = ?2 AND p.refund <> CAST(?6 AS TEXT) AND NOT EXISTS (
      SELECT 1
      FROM refund_parts q
      WHERE q.payment = p.payment AND q.refund = p.refund
    )
  )
)
