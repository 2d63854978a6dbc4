INSERT INTO skus (activity, sku, total)
SELECT CAST(?1 AS TEXT), {sku_expr}, {total_expr}
FROM {json_rows}
WHERE {is_current_version} AND NOT {totals_changed}
ORDER BY {sku_expr}
ON CONFLICT (activity, sku) DO UPDATE SET total = excluded.total
RETURNING sku
