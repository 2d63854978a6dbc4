(
  SELECT MIN(p.order_no)
  FROM (
    SELECT order_no, provider FROM orders WHERE payment = $payment AND payment <> ''
    UNION ALL
    SELECT order_no, provider FROM overpayments WHERE payment = $payment
    UNION ALL
    SELECT order_no, provider FROM callbacks
    WHERE payment = $payment AND payment <> '' AND order_no <> '' AND outcome NOT IN {unparked_outcomes}
  ) p
  WHERE p.provider IN ($provider, '')
)
