INSERT INTO epochs (activity, epoch, losses)
VALUES (?1, CAST(?3 AS BIGINT), CAST(?4 AS BIGINT))
ON CONFLICT (activity) DO UPDATE SET epoch = excluded.epoch, losses = epochs.losses + excluded.losses
WHERE epochs.epoch = CAST(?2 AS BIGINT)
RETURNING epoch
