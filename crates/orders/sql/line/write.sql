INSERT INTO line_entries (
  order_no, activity, sku, user_id, amount, currency, created_at, epoch, sequence, state, reason, updated_at
)
SELECT
  n.order_no, a.id, n.sku, n.user_id, n.amount, n.currency, n.created_at, n.epoch, n.sequence,
  CASE
    WHEN EXISTS (SELECT 1 FROM orders o WHERE o.order_no = n.order_no) THEN 'offered'
    WHEN n.is_old = 1 THEN 'ended'
    ELSE n.state END,
  CASE WHEN n.state = 'waiting' AND n.is_old = 1 THEN 'left_line' ELSE n.reason END,
  CAST(?3 AS BIGINT)
FROM (
  SELECT
    {order_no} AS order_no, {sku} AS sku, {user_id} AS user_id, {amount} AS amount, {currency} AS currency,
    {created_at} AS created_at, {epoch} AS epoch, {sequence} AS sequence, {state} AS state, {reason} AS reason,
    CASE WHEN EXISTS (
      SELECT 1 FROM line_entries later
      WHERE later.activity = ?2 AND later.sku = {sku} AND later.user_id = {user_id} AND later.state = 'waiting'
        AND (later.epoch, later.sequence, later.order_no) > ({epoch}, {sequence}, {order_no})
    ) THEN 1 ELSE 0 END AS is_old
  FROM {rows}
) n
JOIN activities a ON a.id = ?2
WHERE 1 = 1
ON CONFLICT (order_no) DO UPDATE SET state = excluded.state, reason = excluded.reason, updated_at = excluded.updated_at
WHERE line_entries.state = 'waiting' AND excluded.state <> 'waiting'
  -- Its order failed, as its dead letter says. Replayed, it waits again, unless what ended it then was written first.
  OR line_entries.state = 'ended' AND line_entries.reason IN ('limit_reached_in_ledger', 'undeliverable')
    AND (excluded.state <> 'waiting' OR excluded.reason = 'again')
  -- Who had an offer has not left: a later entry of theirs was written before its order failed.
  OR line_entries.state = 'ended' AND line_entries.reason = 'left_line'
    AND excluded.reason IN ('limit_reached_in_ledger', 'undeliverable')
