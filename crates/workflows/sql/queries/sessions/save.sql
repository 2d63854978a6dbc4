INSERT INTO sessions (order_no, session, url, attempt, next_ask_at, state)
VALUES (
  ?1,
  ?2,
  ?3,
  CAST(?4 AS BIGINT),
  CAST(?5 AS BIGINT),
  CASE
    WHEN EXISTS (
      SELECT 1
      FROM callbacks c
      WHERE c.order_no = ?1 AND c.session = ?2 AND c.type = 'session.ended'
    ) THEN 'closed'
    ELSE 'open'
  END
)
ON CONFLICT (order_no) DO UPDATE SET
  session = excluded.session,
  url = excluded.url,
  attempt = excluded.attempt,
  next_ask_at = excluded.next_ask_at,
  state = excluded.state,
  attempts = 0,
  last_error = ''
WHERE sessions.state = 'closed' AND sessions.attempt < excluded.attempt
