SELECT activity, currency, CAST(SUM(sold) AS BIGINT), CAST(SUM(refunded) AS BIGINT)
FROM revenue
WHERE activity IN ({json_values})
GROUP BY activity, currency
ORDER BY activity, currency
