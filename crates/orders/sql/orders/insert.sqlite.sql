INSERT INTO orders (
  order_no, activity, sku, user_id, quantity, amount, currency, status, live, created_at, pay_by,
  free_cancel_until, written_at, updated_at, unsynced_since, epoch, sequence, reason
)
SELECT
  e.value ->> 0, a.id, e.value ->> 1, e.value ->> 2, e.value ->> 3, e.value ->> 4, e.value ->> 5,
  'pending_payment', 1, e.value ->> 6, ?2 + COALESCE(e.value ->> 9, a.pay_timeout_ms),
  ?2 + COALESCE(e.value ->> 9, a.pay_timeout_ms) / 2, ?2, ?2, ?2,
  e.value ->> 7, NULLIF(e.value ->> 8, 0), CASE WHEN e.value ->> 9 IS NULL THEN '' ELSE 'offered' END
FROM json_each(?1) AS e
JOIN activities AS a ON a.id = ?3
JOIN epochs AS p ON p.activity = a.id AND p.epoch <= e.value ->> 7
WHERE 1 = 1
ON CONFLICT (order_no) DO NOTHING
