(
  {own} + (
    SELECT CASE WHEN told > known THEN told - known ELSE 0 END
    FROM (
      SELECT
        (
          SELECT CAST(COALESCE(SUM(t.amount), 0) AS BIGINT)
          FROM partial_refunds t
          WHERE t.payment = {payment} AND t.refund = ''
        ) AS told,
        (
          SELECT CAST(COALESCE(SUM(c.amount), 0) AS BIGINT)
          FROM refund_parts c
          WHERE c.payment = {payment} AND c.state {known}
        ) AS known
    ) AS sums
  ) + (
    SELECT CAST(COALESCE(SUM(made.amount), 0) AS BIGINT)
    FROM partial_refunds made
    WHERE made.payment = {payment} AND made.refund <> '' AND NOT EXISTS (
      SELECT 1
      FROM refund_parts known
      WHERE known.payment = made.payment AND known.refund = made.refund
    )
  )
)
