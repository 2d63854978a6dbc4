UPDATE {table}
SET
  attempts = attempts + 1,
  next_try_at = CAST(?1 AS BIGINT) + 5000 * (attempts + 1) * (attempts + 1)
WHERE state <> 'confirmed' AND next_try_at <= CAST(?1 AS BIGINT) AND {key_column} IN (
  SELECT r.{key_column}
  FROM {table} r
  WHERE r.state <> 'confirmed' AND r.next_try_at <= CAST(?1 AS BIGINT) AND {is_ready}
  ORDER BY r.next_try_at
  LIMIT CAST(?2 AS BIGINT)
)
RETURNING {columns}
