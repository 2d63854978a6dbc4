UPDATE callbacks
SET
  attempts = attempts + CAST({failures} AS BIGINT),
  next_try_at = CAST(?2 AS BIGINT) + CASE
    -- Later than this sweep.
    WHEN CAST({failures} AS BIGINT) = 0 THEN 1
    WHEN attempts < 10 THEN 5000 * (attempts + 1) * (attempts + 1)
    ELSE 600000
  END
FROM {json_rows}
WHERE callbacks.id = {id} AND outcome = ''
