-- Statements that lock the rows of several SKUs lock them in the order of their names: in any other order two
-- statements could wait for each other, and PostgreSQL would end one of them as a deadlock.
-- Statements are separated by blank lines: the drivers run one at a time.

-- The lock is the one that the update takes anyway: a stronger one would keep orders from referring to the SKU.
CREATE OR REPLACE FUNCTION orders_fit_batch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM skus WHERE (activity, sku) IN (SELECT activity, sku FROM fresh WHERE live = 1)
    ORDER BY activity, sku FOR NO KEY UPDATE;
  UPDATE skus SET live = skus.live + taken.units
    FROM (SELECT activity, sku, SUM(quantity)::bigint AS units FROM fresh WHERE live = 1 GROUP BY activity, sku)
      AS taken
    WHERE skus.activity = taken.activity AND skus.sku = taken.sku;
  IF EXISTS (SELECT 1 FROM (SELECT DISTINCT activity, user_id, sku FROM fresh WHERE live = 1) AS buyer
      JOIN activities ON activities.id = buyer.activity
      WHERE activities.per_user < (SELECT SUM(orders.quantity) FROM orders WHERE orders.activity = buyer.activity
        AND orders.user_id = buyer.user_id AND orders.sku = buyer.sku AND orders.live = 1)) THEN
    RAISE EXCEPTION 'more than a buyer may hold' USING ERRCODE = 'check_violation';
  END IF;
  RETURN NULL;
END $$;

-- The same for orders that a sweeper releases together; the trigger before counted them one by one.
CREATE OR REPLACE FUNCTION orders_recount_batch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM skus WHERE (activity, sku) IN (
      SELECT activity, sku FROM (SELECT activity, sku, quantity * live AS units FROM later
        UNION ALL SELECT activity, sku, -quantity * live FROM earlier) AS change
      GROUP BY activity, sku HAVING SUM(units) <> 0)
    ORDER BY activity, sku FOR NO KEY UPDATE;
  IF FOUND THEN
    UPDATE skus SET live = skus.live + moved.units
      FROM (SELECT activity, sku, SUM(units)::bigint AS units
        FROM (SELECT activity, sku, quantity * live AS units FROM later
          UNION ALL SELECT activity, sku, -quantity * live FROM earlier) AS change
        GROUP BY activity, sku HAVING SUM(units) <> 0) AS moved
      WHERE skus.activity = moved.activity AND skus.sku = moved.sku;
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER orders_recount AFTER UPDATE ON orders REFERENCING OLD TABLE AS earlier NEW TABLE AS later
  FOR EACH STATEMENT EXECUTE FUNCTION orders_recount_batch();

DROP FUNCTION IF EXISTS orders_recount();

INSERT INTO schema_versions (version) VALUES (7) ON CONFLICT DO NOTHING;
