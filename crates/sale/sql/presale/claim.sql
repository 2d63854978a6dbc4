INSERT INTO presale_users (activity, code, user_id)
VALUES (?1, ?2, ?3)
ON CONFLICT (activity, user_id, code) DO UPDATE SET user_id = excluded.user_id
RETURNING user_id
