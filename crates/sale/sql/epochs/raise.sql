INSERT INTO epochs (activity, epoch, losses, lost_at)
VALUES (?1, CAST(?3 AS BIGINT), CASE WHEN CAST(?4 AS BIGINT) = 0 THEN 0 ELSE 1 END, CAST(?4 AS BIGINT))
ON CONFLICT (activity) DO UPDATE SET
  epoch = excluded.epoch,
  losses = epochs.losses + excluded.losses,
  lost_at = CASE WHEN excluded.lost_at = 0 THEN epochs.lost_at ELSE excluded.lost_at END
WHERE epochs.epoch = CAST(?2 AS BIGINT)
RETURNING epoch
