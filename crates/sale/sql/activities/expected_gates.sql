SELECT
  a.id,
  a.version,
  COALESCE(p.epoch, 0),
  COALESCE((SELECT MAX(o.sequence) FROM orders o WHERE o.activity = a.id AND o.epoch = p.epoch AND o.sequence IS NOT NULL), 0),
  CASE WHEN a.state IN ('published', 'paused') AND a.ends_at > ?1 THEN 1 ELSE 0 END,
  a.per_user,
  a.updated_at,
  COALESCE((SELECT MAX(e.sequence) FROM line_entries e WHERE e.activity = a.id AND e.epoch = p.epoch), 0)
FROM activities a
LEFT JOIN epochs p ON p.activity = a.id
WHERE a.state NOT IN ('draft', 'erasing') AND a.id IN ({json_values})
ORDER BY a.id
