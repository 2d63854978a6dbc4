UPDATE orders
SET unsynced_since = CAST(?2 AS BIGINT)
FROM {json_rows}
WHERE order_no = {order_no}
  AND status = {status}
  AND pay_by = CAST({pay_by} AS BIGINT)
  AND unsynced_since + 0 > 0
  AND unsynced_since <= CAST(?3 AS BIGINT)
