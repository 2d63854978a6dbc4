INSERT INTO rebuilds (activity, version, epoch, due_at, lost_at)
VALUES (?1, CAST(?2 AS BIGINT), CAST(?3 AS BIGINT), CAST(?4 AS BIGINT), CAST(?5 AS BIGINT))
ON CONFLICT (activity) DO UPDATE SET
  pass = CASE
    WHEN rebuilds.version = excluded.version AND rebuilds.epoch = excluded.epoch THEN rebuilds.pass
    ELSE 0
  END,
  position = CASE
    WHEN rebuilds.version = excluded.version AND rebuilds.epoch = excluded.epoch THEN rebuilds.position
    ELSE 0
  END,
  live_orders_differ = CASE
    WHEN rebuilds.version = excluded.version AND rebuilds.epoch = excluded.epoch THEN rebuilds.live_orders_differ
    ELSE 0
  END,
  version = excluded.version,
  epoch = excluded.epoch,
  due_at = excluded.due_at,
  -- A loss that an epoch has counted is not one of the next.
  lost_at = CASE
    WHEN rebuilds.lost_at > 0 AND rebuilds.epoch = excluded.epoch THEN rebuilds.lost_at
    ELSE excluded.lost_at
  END
RETURNING version, epoch, pass, position, live_orders_differ, lost_at
