INSERT INTO sale_states (activity, sku, state, changes, changed_at)
SELECT n.activity, n.sku, n.state, COALESCE(t.changes, 0) + 1, CAST(?1 AS BIGINT)
FROM (
  SELECT
    a.id AS activity,
    '' AS sku,
    '' AS first_state,
    CASE
      WHEN a.state = 'closed' OR a.ends_at <= CAST(?1 AS BIGINT) THEN 'ended'
      WHEN a.state = 'paused' THEN 'paused'
      WHEN a.starts_at <= CAST(?1 AS BIGINT) THEN 'opened'
      ELSE 'published'
    END AS state
  FROM activities a
  WHERE a.id IN ({json_values})
  UNION ALL
  SELECT s.activity, s.sku, 'back', CASE
    WHEN s.live >= s.total OR EXISTS (
      SELECT 1 FROM line_entries e WHERE e.activity = s.activity AND e.sku = s.sku AND e.state = 'waiting'
    ) THEN 'sold_out' ELSE 'back' END
  FROM skus s
  JOIN activities a ON a.id = s.activity
  WHERE s.activity IN ({json_values}) AND s.total >= 0
    AND a.state IN ('published', 'paused') AND a.ends_at > CAST(?1 AS BIGINT)
) n
LEFT JOIN sale_states t ON t.activity = n.activity AND t.sku = n.sku
WHERE n.state <> COALESCE(t.state, n.first_state)
ORDER BY n.activity, n.sku
ON CONFLICT (activity, sku) DO UPDATE
SET state = excluded.state, changes = excluded.changes, changed_at = excluded.changed_at
WHERE sale_states.changes = excluded.changes - 1
