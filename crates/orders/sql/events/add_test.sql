INSERT INTO events (subject, step, status, reason, pay_by, paid_at, happened_at, next_try_at)
VALUES ('', ?1, 'test', '', 0, 0, ?1, ?1)
ON CONFLICT (subject, step) DO UPDATE SET status = excluded.status
RETURNING {columns}
