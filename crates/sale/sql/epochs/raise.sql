INSERT INTO epochs (activity, epoch)
VALUES (?1, CAST(?3 AS BIGINT))
ON CONFLICT (activity) DO UPDATE SET epoch = excluded.epoch
WHERE epochs.epoch = CAST(?2 AS BIGINT)
RETURNING epoch
