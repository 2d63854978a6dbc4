UPDATE events
SET state = e ->> 2, next_try_at = (e ->> 3)::bigint, last_error = e ->> 4, last_status = (e ->> 5)::bigint
FROM jsonb_array_elements((?1::text)::jsonb) AS e
WHERE subject = e ->> 0 AND step = (e ->> 1)::bigint AND events.state = 'waiting'
