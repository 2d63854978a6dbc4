INSERT INTO epochs (activity, epoch)
VALUES (?1, CAST(?2 AS BIGINT))
ON CONFLICT (activity) DO UPDATE SET epoch = excluded.epoch
WHERE epochs.epoch < excluded.epoch
RETURNING epoch
