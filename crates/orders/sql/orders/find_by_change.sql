SELECT order_no, position
FROM (
  SELECT order_no, {position} AS position
  FROM orders
  WHERE activity = ?1 AND status = '{status}' AND {index} AND updated_at >= CAST(?2 AS BIGINT)
    AND {position} <= CAST(?3 AS BIGINT) AND ({position} < CAST(?3 AS BIGINT) OR order_no < ?4)
  ORDER BY {position} DESC, order_no DESC
  LIMIT CAST(?5 AS BIGINT)
) AS of_{status}
