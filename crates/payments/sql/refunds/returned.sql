(
  (
    SELECT CASE WHEN CAST(COALESCE(SUM(told.amount), 0) AS BIGINT) > {own} THEN CAST(COALESCE(SUM(told.amount), 0) AS BIGINT) ELSE {own} END
    FROM partial_refunds told
    WHERE told.payment = {payment} AND told.refund = ''
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
