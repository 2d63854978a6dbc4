SELECT
  (SELECT COUNT(*) FROM orders o WHERE o.activity = ?1 AND o.status = 'pending_payment'),
  (SELECT COUNT(*) FROM orders o WHERE o.activity = ?1 AND o.status = 'refunding'),
  (
    SELECT COUNT(*)
    FROM orders o
    WHERE o.activity = ?1 AND o.status = 'paid' AND o.amount > 0 AND o.provider <> 'sandbox'
  ),
  (SELECT COUNT(*) FROM callbacks c WHERE c.order_no > ?2 AND c.order_no < ?3 AND (c.outcome = '' OR c.outcome NOT IN {unparked_outcomes})),
  (SELECT COUNT(*) FROM overpayments p WHERE p.order_no > ?2 AND p.order_no < ?3 AND p.state <> 'confirmed')
  + (SELECT COUNT(*) FROM refund_parts p WHERE p.order_no > ?2 AND p.order_no < ?3 AND p.state <> 'confirmed'),
  (
    SELECT COUNT(*)
    FROM events e
    WHERE e.state = 'waiting' AND (e.subject = ?1 OR e.subject > ?2 AND e.subject < ?3)
  ),
  (SELECT COUNT(*) FROM disputes d WHERE d.order_no > ?2 AND d.order_no < ?3 AND d.status = 'open'),
  (SELECT COUNT(*) FROM sessions s WHERE s.order_no > ?2 AND s.order_no < ?3 AND s.state = 'open')
