INSERT INTO orders (
  order_no, activity, sku, user_id, quantity, amount, currency, status, live, created_at, pay_by,
  free_cancel_until, written_at, updated_at, unsynced_since, epoch, sequence, reason
)
WITH sale AS MATERIALIZED (
  SELECT a.id, a.pay_timeout_ms, p.epoch
  FROM activities AS a
  JOIN epochs AS p ON p.activity = a.id
  WHERE a.id = ?3
  FOR SHARE OF p
)
SELECT
  e ->> 0, sale.id, e ->> 1, e ->> 2, (e ->> 3)::bigint, (e ->> 4)::bigint, e ->> 5,
  'pending_payment', 1, (e ->> 6)::bigint, ?2::bigint + COALESCE((e ->> 9)::bigint, sale.pay_timeout_ms),
  ?2::bigint + COALESCE((e ->> 9)::bigint, sale.pay_timeout_ms) / 2, ?2::bigint, ?2::bigint, ?2::bigint,
  (e ->> 7)::bigint, NULLIF((e ->> 8)::bigint, 0), CASE WHEN e ->> 9 IS NULL THEN '' ELSE 'offered' END
FROM sale
JOIN jsonb_array_elements((?1::text)::jsonb) AS e ON (e ->> 7)::bigint >= sale.epoch
ON CONFLICT (order_no) DO NOTHING
