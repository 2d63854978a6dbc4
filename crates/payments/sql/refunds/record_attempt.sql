UPDATE {table}
SET
  {set},
  next_try_at = CASE WHEN next_try_at < CAST(?4 AS BIGINT) THEN CAST(?4 AS BIGINT) ELSE next_try_at END
WHERE {key_column} = ?1 AND payment = ?2 AND state <> 'confirmed' AND failures = ?5
