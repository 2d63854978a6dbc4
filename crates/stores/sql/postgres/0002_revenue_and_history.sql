-- What each sale earned, and how its stock went (G2, G22).

-- Amounts of paid orders, and what of them was given back: sums that are read instead of the orders. An order counts as
-- sold once it is paid, and as refunded with the parts of its payment, then as a whole. Triggers maintain them, in slots
-- like those of `order_counts`. Their rows are locked after that of the order, and before those of `skus`.
CREATE TABLE IF NOT EXISTS revenue (
  activity TEXT NOT NULL,
  currency TEXT NOT NULL,
  slot BIGINT NOT NULL DEFAULT 0,
  sold BIGINT NOT NULL,
  refunded BIGINT NOT NULL,
  PRIMARY KEY (activity, currency, slot)
);

CREATE OR REPLACE FUNCTION revenue_add(of_activity TEXT, of_currency TEXT, add_sold BIGINT, add_refunded BIGINT)
  RETURNS void LANGUAGE sql AS $$
  INSERT INTO revenue (activity, currency, slot, sold, refunded)
  SELECT of_activity, of_currency, pg_backend_pid() % 16, add_sold, add_refunded
  WHERE add_sold <> 0 OR add_refunded <> 0
  ON CONFLICT (activity, currency, slot) DO UPDATE
  SET sold = revenue.sold + excluded.sold, refunded = revenue.refunded + excluded.refunded;
$$;

-- What was given back of an order with this row.
CREATE OR REPLACE FUNCTION refunded_of(o orders) RETURNS BIGINT LANGUAGE sql STABLE AS $$
  SELECT CASE
    WHEN o.status = 'refunded' THEN o.amount
    WHEN o.status IN ('paid', 'refunding') THEN (
      SELECT COALESCE(SUM(p.amount), 0)::bigint FROM partial_refunds p
      WHERE p.payment = o.payment AND p.order_no = o.order_no)
    ELSE 0 END;
$$;

CREATE OR REPLACE FUNCTION revenue_of_orders() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    PERFORM revenue_add(NEW.activity, NEW.currency, NEW.amount, refunded_of(NEW));
  ELSE
    PERFORM revenue_add(NEW.activity, NEW.currency,
      CASE WHEN OLD.status IN ('paid', 'refunding', 'refunded') THEN 0 ELSE NEW.amount END,
      refunded_of(NEW) - refunded_of(OLD));
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER revenue_of_new AFTER INSERT ON orders FOR EACH ROW
  WHEN (NEW.status IN ('paid', 'refunding', 'refunded')) EXECUTE FUNCTION revenue_of_orders();

CREATE OR REPLACE TRIGGER revenue_of_moves AFTER UPDATE OF status, payment ON orders FOR EACH ROW
  WHEN (NEW.status IN ('paid', 'refunding', 'refunded')
    AND (NEW.status <> OLD.status OR NEW.payment <> OLD.payment)) EXECUTE FUNCTION revenue_of_orders();

-- A part of an overpayment is no part of its order's payment. The order is locked: of a part and the whole refund, the
-- second finds the first.
CREATE OR REPLACE FUNCTION revenue_of_parts() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  part partial_refunds := CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
BEGIN
  PERFORM 1 FROM orders WHERE order_no = part.order_no FOR NO KEY UPDATE;
  PERFORM revenue_add(o.activity, o.currency, 0, CASE TG_OP
    WHEN 'INSERT' THEN NEW.amount
    WHEN 'DELETE' THEN -OLD.amount
    ELSE NEW.amount - OLD.amount END)
  FROM orders o
  WHERE o.order_no = part.order_no AND o.payment = part.payment AND o.status IN ('paid', 'refunding');
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER revenue_of_parts AFTER INSERT OR UPDATE OF amount OR DELETE ON partial_refunds FOR EACH ROW
  EXECUTE FUNCTION revenue_of_parts();

CREATE OR REPLACE FUNCTION revenue_ends() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM revenue WHERE activity = OLD.id;
  RETURN OLD;
END $$;

CREATE OR REPLACE TRIGGER revenue_ends BEFORE DELETE ON activities FOR EACH ROW EXECUTE FUNCTION revenue_ends();

-- Orders from before this version. Every sum is that of its rows, however often this runs: no order changes meanwhile.
DO $$
BEGIN
  LOCK TABLE partial_refunds, orders IN SHARE ROW EXCLUSIVE MODE;
  DELETE FROM revenue;
  INSERT INTO revenue (activity, currency, sold, refunded)
  SELECT o.activity, o.currency, SUM(o.amount), SUM(refunded_of(o))
  FROM orders o
  WHERE o.status IN ('paid', 'refunding', 'refunded')
  GROUP BY o.activity, o.currency;
END $$;

-- How the units of a SKU changed, as sweeps saw it. Orders in the queue are still among those left.
CREATE TABLE IF NOT EXISTS sale_history (
  activity TEXT NOT NULL,
  sku TEXT NOT NULL,
  recorded_at BIGINT NOT NULL,
  units_left BIGINT NOT NULL,
  held BIGINT NOT NULL,
  sold BIGINT NOT NULL,
  PRIMARY KEY (activity, sku, recorded_at)
);

-- A SKU has 720 rows or less: of the older half, each second one goes.
CREATE OR REPLACE FUNCTION sale_history_thin() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (SELECT COUNT(*) FROM sale_history WHERE activity = NEW.activity AND sku = NEW.sku) > 720 THEN
    DELETE FROM sale_history WHERE activity = NEW.activity AND sku = NEW.sku AND recorded_at IN (
      SELECT recorded_at FROM (
        SELECT recorded_at, ROW_NUMBER() OVER (ORDER BY recorded_at) AS position FROM sale_history
        WHERE activity = NEW.activity AND sku = NEW.sku) AS numbered
      WHERE position <= 360 AND position % 2 = 0);
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER sale_history_thin AFTER INSERT ON sale_history FOR EACH ROW
  EXECUTE FUNCTION sale_history_thin();

INSERT INTO schema_versions (version) VALUES (2) ON CONFLICT DO NOTHING;
