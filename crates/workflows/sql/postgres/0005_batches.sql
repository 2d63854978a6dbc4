-- Orders are checked and counted a batch at a time. Row by row, each order of a batch created a new version of its
-- SKU's row, and the next one had to skip all of them.
-- Statements are separated by blank lines: the drivers run one at a time.

-- A batch that would oversell (I2: the CHECK of `skus`) or exceed a buyer's limit (I3) is refused as a whole; the
-- writer then inserts its orders one by one. Updating the SKU's row locks it, so that concurrent writers run one after
-- the other and see each other's rows.
CREATE OR REPLACE FUNCTION orders_fit_batch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE skus SET live = skus.live + taken.units
    FROM (SELECT activity, sku, SUM(quantity)::bigint AS units FROM fresh WHERE live = 1 GROUP BY activity, sku) AS taken
    WHERE skus.activity = taken.activity AND skus.sku = taken.sku;
  IF EXISTS (SELECT 1 FROM (SELECT DISTINCT activity, user_id, sku FROM fresh WHERE live = 1) AS buyer
      JOIN activities ON activities.id = buyer.activity
      WHERE activities.per_user < (SELECT SUM(orders.quantity) FROM orders WHERE orders.activity = buyer.activity
        AND orders.user_id = buyer.user_id AND orders.sku = buyer.sku AND orders.live = 1)) THEN
    RAISE EXCEPTION 'more than a buyer may hold' USING ERRCODE = 'check_violation';
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER orders_fit AFTER INSERT ON orders REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION orders_fit_batch();

DROP FUNCTION IF EXISTS orders_fit();

INSERT INTO schema_versions (version) VALUES (5) ON CONFLICT DO NOTHING;
