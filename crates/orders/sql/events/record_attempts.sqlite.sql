UPDATE events
SET state = e.value ->> 2, next_try_at = e.value ->> 3, last_error = e.value ->> 4, last_status = e.value ->> 5
FROM json_each(?1) AS e
WHERE subject = e.value ->> 0 AND step = e.value ->> 1 AND events.state = 'waiting'
