INSERT INTO endpoints (url, disabled_at, rest_until, pace, gone)
VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (url) DO UPDATE SET
  disabled_at = excluded.disabled_at,
  rest_until = excluded.rest_until,
  pace = excluded.pace,
  gone = excluded.gone
