INSERT INTO addresses (order_no, sealed, saved_at, item, language)
SELECT
  o.order_no,
  CASE WHEN {checkout} = 'form' THEN CAST(?2 AS TEXT) ELSE '' END,
  {now},
  COALESCE((SELECT CAST(s.sku AS TEXT) FROM ({skus}) AS s WHERE s.sku ->> 'sku' = o.sku LIMIT 1), ''),
  CAST(?3 AS TEXT)
FROM orders o
LEFT JOIN activities a ON a.id = o.activity
WHERE o.order_no = ?1 AND o.status = 'pending_payment' AND o.pay_by > {now}
  AND ({checkout} <> 'form' OR CAST(?2 AS TEXT) <> '')
ON CONFLICT (order_no) DO UPDATE SET
  sealed = CASE WHEN excluded.sealed = '' THEN addresses.sealed ELSE excluded.sealed END,
  saved_at = excluded.saved_at
RETURNING
  (SELECT o.sku FROM orders o WHERE o.order_no = addresses.order_no),
  item,
  language,
  (
    SELECT CASE WHEN {checkout} = 'provider' THEN 1 ELSE 0 END
    FROM orders o
    LEFT JOIN activities a ON a.id = o.activity
    WHERE o.order_no = addresses.order_no
  ),
  (SELECT s.attempt FROM sessions s WHERE s.order_no = addresses.order_no),
  (SELECT CASE WHEN s.state = 'open' THEN 1 ELSE 0 END FROM sessions s WHERE s.order_no = addresses.order_no)
