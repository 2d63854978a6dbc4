INSERT INTO leases (name, owner, token, until)
VALUES (?1, ?2, 1, CAST(?4 AS BIGINT))
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, token = leases.token + 1, until = excluded.until
WHERE leases.until <= CAST(?3 AS BIGINT)
RETURNING token, resume_after
