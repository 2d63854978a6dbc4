SELECT {columns}
FROM orders
WHERE user_id = ?1 {older}
ORDER BY created_at DESC, order_no DESC
LIMIT CAST(?2 AS BIGINT)
