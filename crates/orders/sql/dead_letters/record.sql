INSERT INTO dead_letters (order_no, message, reason, died_at)
SELECT {order_no}, {message}, {reason}, CAST(?2 AS BIGINT)
FROM {json_rows}
WHERE 1 = 1
ON CONFLICT (order_no) DO UPDATE SET message = excluded.message, reason = excluded.reason, died_at = excluded.died_at
