SELECT {columns}
FROM orders
WHERE user_id = ?1 AND (
  CAST(?2 AS TEXT) = ''
  OR (created_at, order_no) < (
    SELECT b.created_at, b.order_no
    FROM orders b
    WHERE b.order_no = ?2 AND b.user_id = ?1
  )
)
ORDER BY created_at DESC, order_no DESC
LIMIT CAST(?3 AS BIGINT)
