SELECT {columns}
FROM (
  SELECT *
  FROM activities
  WHERE state {states} AND ends_at > CAST(?1 AS BIGINT)
  ORDER BY ends_at
  LIMIT 150
) AS activities
UNION ALL
SELECT {columns}
FROM (
  SELECT *
  FROM activities
  WHERE state {states} AND ends_at <= CAST(?1 AS BIGINT)
  ORDER BY ends_at DESC
  LIMIT 50
) AS activities
