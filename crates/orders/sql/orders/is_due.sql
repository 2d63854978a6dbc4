d.status = 'pending_payment' AND d.pay_by <= CAST(?1 AS BIGINT) AND NOT EXISTS (
      SELECT 1
      FROM sessions s
      WHERE s.order_no = d.order_no AND s.state = 'open' AND d.pay_by > CAST(?2 AS BIGINT)
    )
