WITH letters AS (
  SELECT
    order_no,
    message,
    reason,
    died_at,
    replayed_at,
    CASE WHEN replayed_at < died_at THEN 1 ELSE 0 END AS waits
  FROM dead_letters
)
SELECT order_no, message, reason, died_at, replayed_at
FROM letters
WHERE CAST(?1 AS TEXT) = ''
  OR (waits, died_at, order_no) < (SELECT b.waits, b.died_at, b.order_no FROM letters b WHERE b.order_no = ?1)
ORDER BY waits DESC, died_at DESC, order_no DESC
LIMIT CAST(?2 AS BIGINT)
