WITH new_codes (code) AS ({json_values})
INSERT INTO presale_codes (activity, code, max_users)
SELECT ?1, n.code, CAST(?3 AS BIGINT)
FROM new_codes n
WHERE EXISTS (SELECT 1 FROM activities a WHERE a.id = ?1 AND a.state <> 'erasing')
  AND CAST(?4 AS BIGINT) >= (
    SELECT COUNT(*) FROM (
      SELECT p.code FROM presale_codes p WHERE p.activity = ?1 UNION SELECT c.code FROM new_codes c
    ) AS together
  )
ON CONFLICT (activity, code) DO NOTHING
RETURNING code
