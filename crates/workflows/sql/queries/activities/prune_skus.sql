DELETE FROM skus
WHERE activity = ?1
  AND sku NOT IN (SELECT {sku_expr} FROM {json_rows})
  AND live = 0
  AND {is_current_version}
  AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.activity = skus.activity AND o.sku = skus.sku)
