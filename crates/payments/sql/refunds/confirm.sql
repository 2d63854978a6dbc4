UPDATE {table}
SET
  state = 'confirmed',
  last_error = '',
  refund = CASE WHEN CAST(?3 AS TEXT) = '' THEN refund ELSE CAST(?3 AS TEXT) END
WHERE order_no = ?1 AND payment = ?2 AND amount = ?4 AND currency = ?5
  AND (state <> 'confirmed' OR refund IN (CAST(?3 AS TEXT), '') OR CAST(?3 AS TEXT) = '')
  AND (
    state = 'confirmed'
    OR (CAST(?6 AS BIGINT) = 1 AND state = 'sent' AND refund = CAST(?3 AS TEXT))
    OR (
      (failures = 0 OR CAST(?3 AS TEXT) <> '')
      AND REPLACE(failed_refunds, '[' || CAST(?3 AS TEXT) || ']', '') = failed_refunds
      AND NOT EXISTS (
        SELECT 1
        FROM callbacks c
        WHERE c.order_no = ?1 AND c.payment = ?2 AND c.type = 'refund.failed' AND c.amount = ?4 AND c.currency = ?5
          AND (c.refund IN (CAST(?3 AS TEXT), '') OR CAST(?3 AS TEXT) = '')
      )
    )
  )
RETURNING payment
