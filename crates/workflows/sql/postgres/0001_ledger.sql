-- Activities, SKUs, orders, callbacks, refunds, dead letters, bans and strikes.
-- Invariants are enforced here, not by the code that writes.
-- Statements are separated by blank lines: the drivers run one at a time.

CREATE TABLE IF NOT EXISTS activities (
  id TEXT PRIMARY KEY,
  spec TEXT NOT NULL,
  starts_at BIGINT NOT NULL,
  ends_at BIGINT NOT NULL CHECK (ends_at > starts_at),
  pay_timeout_ms BIGINT NOT NULL CHECK (pay_timeout_ms > 0),
  pay_extension_ms BIGINT NOT NULL CHECK (pay_extension_ms >= 0),
  per_user BIGINT NOT NULL CHECK (per_user > 0),
  refund_restocks BIGINT NOT NULL CHECK (refund_restocks IN (0, 1)),
  state TEXT NOT NULL CHECK (state IN ('draft', 'published', 'paused', 'closed')),
  nonce TEXT NOT NULL,
  version BIGINT NOT NULL,
  updated_at BIGINT NOT NULL
);

-- I2: `live` counts the units that orders hold. Triggers maintain it, and the CHECK keeps it within the total.
CREATE TABLE IF NOT EXISTS skus (
  activity TEXT NOT NULL REFERENCES activities (id),
  sku TEXT NOT NULL,
  total BIGINT NOT NULL CHECK (total >= -1),
  live BIGINT NOT NULL DEFAULT 0 CHECK (live >= 0),
  PRIMARY KEY (activity, sku),
  CHECK (total = -1 OR live <= total)
);

-- I7: an order has the number of its ticket, so the primary key makes a ticket single-use.
CREATE TABLE IF NOT EXISTS orders (
  order_no TEXT PRIMARY KEY,
  activity TEXT NOT NULL,
  sku TEXT NOT NULL,
  user_id TEXT NOT NULL,
  quantity BIGINT NOT NULL CHECK (quantity > 0),
  amount BIGINT NOT NULL CHECK (amount >= 0),
  currency TEXT NOT NULL,
  status TEXT NOT NULL,
  live BIGINT NOT NULL CHECK (live IN (0, 1)),
  reason TEXT NOT NULL DEFAULT '',
  created_at BIGINT NOT NULL,
  pay_by BIGINT NOT NULL DEFAULT 0,
  paid_at BIGINT NOT NULL DEFAULT 0,
  extended BIGINT NOT NULL DEFAULT 0 CHECK (extended IN (0, 1)),
  checkout_url TEXT NOT NULL DEFAULT '',
  address TEXT NOT NULL DEFAULT '',
  payment TEXT NOT NULL DEFAULT '',
  updated_at BIGINT NOT NULL,
  unsettled BIGINT NOT NULL DEFAULT 0 CHECK (unsettled IN (0, 1)),
  FOREIGN KEY (activity, sku) REFERENCES skus (activity, sku),
  CHECK (CASE
    WHEN status IN ('pending_payment', 'paid') THEN live = 1
    WHEN status IN ('cancelled', 'expired', 'failed') THEN live = 0
    ELSE status IN ('refunding', 'refunded') END)
);

CREATE INDEX IF NOT EXISTS orders_of_user ON orders (user_id, created_at, order_no);

CREATE INDEX IF NOT EXISTS orders_held ON orders (activity, user_id, sku) WHERE live = 1;

CREATE INDEX IF NOT EXISTS orders_due ON orders (pay_by) WHERE status = 'pending_payment';

CREATE INDEX IF NOT EXISTS orders_unsettled ON orders (updated_at) WHERE unsettled = 1;

-- A row that would oversell (I2) or exceed a buyer's limit (I3) is left out of its batch, and its order fails. The
-- SKU's row is locked first, so that concurrent writers run one after the other and see each other's rows.
CREATE OR REPLACE FUNCTION orders_fit() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  fits BOOLEAN;
BEGIN
  SELECT total = -1 OR live + NEW.quantity <= total INTO fits
    FROM skus WHERE activity = NEW.activity AND sku = NEW.sku FOR UPDATE;
  IF fits IS NOT TRUE OR EXISTS (SELECT 1 FROM orders WHERE order_no = NEW.order_no) THEN
    RETURN NULL;
  END IF;
  IF NEW.quantity + (SELECT COALESCE(SUM(quantity), 0) FROM orders
      WHERE activity = NEW.activity AND sku = NEW.sku AND user_id = NEW.user_id AND live = 1)
      > (SELECT per_user FROM activities WHERE id = NEW.activity) THEN
    RETURN NULL;
  END IF;
  UPDATE skus SET live = live + NEW.quantity WHERE activity = NEW.activity AND sku = NEW.sku;
  RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER orders_fit BEFORE INSERT ON orders FOR EACH ROW WHEN (NEW.live = 1) EXECUTE FUNCTION orders_fit();

CREATE OR REPLACE FUNCTION orders_recount() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE skus SET live = live + NEW.quantity * (NEW.live - OLD.live) WHERE activity = NEW.activity AND sku = NEW.sku;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER orders_recount AFTER UPDATE OF live ON orders FOR EACH ROW WHEN (NEW.live <> OLD.live)
  EXECUTE FUNCTION orders_recount();

-- Only these transitions of an order are allowed.
CREATE OR REPLACE FUNCTION orders_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT (CASE OLD.status
    WHEN 'pending_payment' THEN NEW.status IN ('paid', 'cancelled', 'expired')
    WHEN 'cancelled' THEN NEW.status IN ('paid', 'refunding')
    WHEN 'expired' THEN NEW.status IN ('paid', 'refunding')
    WHEN 'paid' THEN NEW.status = 'refunding'
    WHEN 'refunding' THEN NEW.status = 'refunded'
    ELSE FALSE END) THEN
    RAISE EXCEPTION 'illegal move';
  END IF;
  RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER orders_move BEFORE UPDATE OF status ON orders FOR EACH ROW WHEN (NEW.status <> OLD.status)
  EXECUTE FUNCTION orders_move();

CREATE OR REPLACE FUNCTION orders_stay() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'orders are never deleted';
END $$;

CREATE OR REPLACE TRIGGER orders_stay BEFORE DELETE ON orders FOR EACH ROW EXECUTE FUNCTION orders_stay();

-- Callbacks of payment providers, each recorded once (E2).
CREATE TABLE IF NOT EXISTS callbacks (
  id TEXT PRIMARY KEY,
  type TEXT NOT NULL,
  order_no TEXT NOT NULL,
  payment TEXT NOT NULL DEFAULT '',
  amount BIGINT NOT NULL DEFAULT 0,
  currency TEXT NOT NULL DEFAULT '',
  received_at BIGINT NOT NULL,
  outcome TEXT NOT NULL DEFAULT ''
);

CREATE INDEX IF NOT EXISTS callbacks_open ON callbacks (received_at) WHERE outcome = '';

-- Refunds as durable work: requested, sent, confirmed (E4, I6).
CREATE TABLE IF NOT EXISTS refunds (
  order_no TEXT PRIMARY KEY REFERENCES orders (order_no),
  payment TEXT NOT NULL,
  amount BIGINT NOT NULL,
  currency TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'requested' CHECK (state IN ('requested', 'sent', 'confirmed')),
  attempts BIGINT NOT NULL DEFAULT 0,
  next_try_at BIGINT NOT NULL,
  last_error TEXT NOT NULL DEFAULT ''
);

CREATE INDEX IF NOT EXISTS refunds_open ON refunds (next_try_at) WHERE state <> 'confirmed';

CREATE OR REPLACE FUNCTION refunds_follow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.status = 'refunding' THEN
    INSERT INTO refunds (order_no, payment, amount, currency, next_try_at)
    VALUES (NEW.order_no, NEW.payment, NEW.amount, NEW.currency, NEW.updated_at) ON CONFLICT DO NOTHING;
  ELSIF NEW.status = 'refunded' THEN
    UPDATE refunds SET state = 'confirmed', last_error = '' WHERE order_no = NEW.order_no;
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER refunds_follow AFTER UPDATE OF status ON orders FOR EACH ROW
  WHEN (NEW.status <> OLD.status) EXECUTE FUNCTION refunds_follow();

-- Order messages that could not be written, kept for an operator (D4, I4).
CREATE TABLE IF NOT EXISTS dead_letters (
  order_no TEXT PRIMARY KEY,
  message TEXT NOT NULL,
  reason TEXT NOT NULL,
  died_at BIGINT NOT NULL,
  replayed_at BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE IF NOT EXISTS bans (
  kind TEXT NOT NULL CHECK (kind IN ('user', 'ip')),
  name TEXT NOT NULL,
  until BIGINT NOT NULL,
  reason TEXT NOT NULL,
  PRIMARY KEY (kind, name)
);

CREATE TABLE IF NOT EXISTS strikes (
  user_id TEXT PRIMARY KEY,
  count BIGINT NOT NULL,
  last_at BIGINT NOT NULL
);

-- An order that expires unpaid is a strike against its buyer (B8).
CREATE OR REPLACE FUNCTION strikes_count() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO strikes (user_id, count, last_at) VALUES (NEW.user_id, 1, NEW.updated_at)
  ON CONFLICT (user_id) DO UPDATE SET count = strikes.count + 1, last_at = excluded.last_at;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER strikes_count AFTER UPDATE OF status ON orders FOR EACH ROW
  WHEN (NEW.status = 'expired' AND OLD.status = 'pending_payment') EXECUTE FUNCTION strikes_count();

CREATE TABLE IF NOT EXISTS schema_versions (version BIGINT PRIMARY KEY);

INSERT INTO schema_versions (version) VALUES (1) ON CONFLICT DO NOTHING;
