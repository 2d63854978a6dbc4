SELECT {positions}
FROM {json_rows}
LEFT JOIN orders AS o ON o.order_no = {order_no}
WHERE
  CASE
    WHEN o.order_no IS NULL THEN {must_exist} = '1'
    ELSE o.status <> {status} OR (
      {has_checkout_url} = '1' AND o.status = 'pending_payment' AND (
        o.checkout_url = '' OR EXISTS (
          SELECT 1 FROM sessions AS s
          WHERE s.order_no = o.order_no AND s.url = o.checkout_url AND s.state = 'closed'
        )
      )
    )
  END
