-- What each sale earned, and how its stock went (G2, G22).

-- Amounts of paid orders, and what of them was given back: sums that are read instead of the orders. An order counts as
-- sold once it is paid, and as refunded with the parts of its payment, then as a whole. Triggers maintain them. `slot` is
-- always 0 here.
CREATE TABLE IF NOT EXISTS revenue (
  activity TEXT NOT NULL,
  currency TEXT NOT NULL,
  slot INTEGER NOT NULL DEFAULT 0,
  sold INTEGER NOT NULL,
  refunded INTEGER NOT NULL,
  PRIMARY KEY (activity, currency, slot)
) WITHOUT ROWID;

CREATE TRIGGER IF NOT EXISTS revenue_of_new AFTER INSERT ON orders
WHEN NEW.status IN ('paid', 'refunding', 'refunded')
BEGIN
  INSERT INTO revenue (activity, currency, sold, refunded)
  VALUES (NEW.activity, NEW.currency, NEW.amount, CASE NEW.status WHEN 'refunded' THEN NEW.amount ELSE (
    SELECT COALESCE(SUM(p.amount), 0) FROM partial_refunds p
    WHERE p.payment = NEW.payment AND p.order_no = NEW.order_no) END)
  ON CONFLICT DO UPDATE SET sold = sold + excluded.sold, refunded = refunded + excluded.refunded;
END;

CREATE TRIGGER IF NOT EXISTS revenue_of_moves AFTER UPDATE OF status, payment ON orders
WHEN NEW.status IN ('paid', 'refunding', 'refunded') AND (NEW.status <> OLD.status OR NEW.payment <> OLD.payment)
BEGIN
  INSERT INTO revenue (activity, currency, sold, refunded)
  VALUES (NEW.activity, NEW.currency,
    CASE WHEN OLD.status IN ('paid', 'refunding', 'refunded') THEN 0 ELSE NEW.amount END,
    CASE NEW.status WHEN 'refunded' THEN NEW.amount ELSE (
      SELECT COALESCE(SUM(p.amount), 0) FROM partial_refunds p
      WHERE p.payment = NEW.payment AND p.order_no = NEW.order_no) END
    - CASE WHEN OLD.status = 'refunded' THEN OLD.amount WHEN OLD.status IN ('paid', 'refunding') THEN (
      SELECT COALESCE(SUM(p.amount), 0) FROM partial_refunds p
      WHERE p.payment = OLD.payment AND p.order_no = OLD.order_no) ELSE 0 END)
  ON CONFLICT DO UPDATE SET sold = sold + excluded.sold, refunded = refunded + excluded.refunded;
END;

-- A part of an overpayment is no part of its order's payment.
CREATE TRIGGER IF NOT EXISTS revenue_of_part AFTER INSERT ON partial_refunds
BEGIN
  UPDATE revenue SET refunded = refunded + NEW.amount
  WHERE (activity, currency, slot) IN (SELECT o.activity, o.currency, 0 FROM orders o
    WHERE o.order_no = NEW.order_no AND o.payment = NEW.payment AND o.status IN ('paid', 'refunding'));
END;

CREATE TRIGGER IF NOT EXISTS revenue_of_larger_part AFTER UPDATE OF amount ON partial_refunds
BEGIN
  UPDATE revenue SET refunded = refunded + NEW.amount - OLD.amount
  WHERE (activity, currency, slot) IN (SELECT o.activity, o.currency, 0 FROM orders o
    WHERE o.order_no = NEW.order_no AND o.payment = NEW.payment AND o.status IN ('paid', 'refunding'));
END;

CREATE TRIGGER IF NOT EXISTS revenue_of_failed_part AFTER DELETE ON partial_refunds
BEGIN
  UPDATE revenue SET refunded = refunded - OLD.amount
  WHERE (activity, currency, slot) IN (SELECT o.activity, o.currency, 0 FROM orders o
    WHERE o.order_no = OLD.order_no AND o.payment = OLD.payment AND o.status IN ('paid', 'refunding'));
END;

CREATE TRIGGER IF NOT EXISTS revenue_ends BEFORE DELETE ON activities
BEGIN
  DELETE FROM revenue WHERE activity = OLD.id;
END;

-- Orders from before this version. Every sum is that of its rows, however often this runs.
INSERT INTO revenue (activity, currency, sold, refunded)
SELECT o.activity, o.currency, SUM(o.amount), SUM(CASE o.status WHEN 'refunded' THEN o.amount ELSE (
  SELECT COALESCE(SUM(p.amount), 0) FROM partial_refunds p
  WHERE p.payment = o.payment AND p.order_no = o.order_no) END)
FROM orders o
WHERE o.status IN ('paid', 'refunding', 'refunded')
GROUP BY o.activity, o.currency
ON CONFLICT DO UPDATE SET sold = excluded.sold, refunded = excluded.refunded;

-- How the units of a SKU changed, as sweeps saw it. Orders in the queue are still among those left.
CREATE TABLE IF NOT EXISTS sale_history (
  activity TEXT NOT NULL,
  sku TEXT NOT NULL,
  recorded_at INTEGER NOT NULL,
  units_left INTEGER NOT NULL,
  held INTEGER NOT NULL,
  sold INTEGER NOT NULL,
  PRIMARY KEY (activity, sku, recorded_at)
) WITHOUT ROWID;

-- A SKU has 720 rows or less: of the older half, each second one goes.
CREATE TRIGGER IF NOT EXISTS sale_history_thin AFTER INSERT ON sale_history
WHEN (SELECT COUNT(*) FROM sale_history WHERE activity = NEW.activity AND sku = NEW.sku) > 720
BEGIN
  DELETE FROM sale_history WHERE activity = NEW.activity AND sku = NEW.sku AND recorded_at IN (
    SELECT recorded_at FROM (
      SELECT recorded_at, ROW_NUMBER() OVER (ORDER BY recorded_at) AS position FROM sale_history
      WHERE activity = NEW.activity AND sku = NEW.sku)
    WHERE position <= 360 AND position % 2 = 0);
END;

INSERT INTO schema_versions (version) VALUES (2) ON CONFLICT DO NOTHING;
