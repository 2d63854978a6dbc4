AND (created_at, order_no) < (CAST(?3 AS BIGINT), ?4)
