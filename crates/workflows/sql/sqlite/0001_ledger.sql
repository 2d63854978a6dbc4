-- Activities, SKUs, orders, callbacks, refunds, dead letters, bans and strikes.
-- Invariants are enforced here, not by the code that writes.
-- Statements are separated by blank lines: the drivers run one at a time.

PRAGMA journal_mode = WAL;

CREATE TABLE IF NOT EXISTS activities (
  id TEXT PRIMARY KEY,
  spec TEXT NOT NULL,
  starts_at INTEGER NOT NULL,
  ends_at INTEGER NOT NULL CHECK (ends_at > starts_at),
  pay_timeout_ms INTEGER NOT NULL CHECK (pay_timeout_ms > 0),
  pay_extension_ms INTEGER NOT NULL CHECK (pay_extension_ms >= 0),
  per_user INTEGER NOT NULL CHECK (per_user > 0),
  refund_restocks INTEGER NOT NULL CHECK (refund_restocks IN (0, 1)),
  state TEXT NOT NULL CHECK (state IN ('draft', 'published', 'paused', 'closed')),
  nonce TEXT NOT NULL,
  version INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
);

-- I2: `live` counts the units that orders hold. Triggers maintain it, and the CHECK keeps it within the total.
CREATE TABLE IF NOT EXISTS skus (
  activity TEXT NOT NULL REFERENCES activities (id),
  sku TEXT NOT NULL,
  total INTEGER NOT NULL CHECK (total >= -1),
  live INTEGER NOT NULL DEFAULT 0 CHECK (live >= 0),
  PRIMARY KEY (activity, sku),
  CHECK (total = -1 OR live <= total)
) WITHOUT ROWID;

-- I7: an order has the number of its ticket, so the primary key makes a ticket single-use.
CREATE TABLE IF NOT EXISTS orders (
  order_no TEXT PRIMARY KEY,
  activity TEXT NOT NULL,
  sku TEXT NOT NULL,
  user_id TEXT NOT NULL,
  quantity INTEGER NOT NULL CHECK (quantity > 0),
  amount INTEGER NOT NULL CHECK (amount >= 0),
  currency TEXT NOT NULL,
  status TEXT NOT NULL,
  live INTEGER NOT NULL CHECK (live IN (0, 1)),
  reason TEXT NOT NULL DEFAULT '',
  created_at INTEGER NOT NULL,
  pay_by INTEGER NOT NULL DEFAULT 0,
  paid_at INTEGER NOT NULL DEFAULT 0,
  extended INTEGER NOT NULL DEFAULT 0 CHECK (extended IN (0, 1)),
  checkout_url TEXT NOT NULL DEFAULT '',
  address TEXT NOT NULL DEFAULT '',
  payment TEXT NOT NULL DEFAULT '',
  updated_at INTEGER NOT NULL,
  unsettled INTEGER NOT NULL DEFAULT 0 CHECK (unsettled IN (0, 1)),
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

-- A row that would oversell (I2) or exceed a buyer's limit (I3) is left out of its batch, and its order fails.
CREATE TRIGGER IF NOT EXISTS orders_fit BEFORE INSERT ON orders WHEN NEW.live = 1
BEGIN
  SELECT RAISE(IGNORE) WHERE NOT EXISTS (
    SELECT 1 FROM skus WHERE activity = NEW.activity AND sku = NEW.sku
      AND (total = -1 OR live + NEW.quantity <= total));
  SELECT RAISE(IGNORE) WHERE NEW.quantity + (
    SELECT COALESCE(SUM(quantity), 0) FROM orders
    WHERE activity = NEW.activity AND sku = NEW.sku AND user_id = NEW.user_id AND live = 1)
    > (SELECT per_user FROM activities WHERE id = NEW.activity);
END;

CREATE TRIGGER IF NOT EXISTS orders_count AFTER INSERT ON orders WHEN NEW.live = 1
BEGIN
  UPDATE skus SET live = live + NEW.quantity WHERE activity = NEW.activity AND sku = NEW.sku;
END;

CREATE TRIGGER IF NOT EXISTS orders_recount AFTER UPDATE OF live ON orders WHEN NEW.live <> OLD.live
BEGIN
  UPDATE skus SET live = live + NEW.quantity * (NEW.live - OLD.live) WHERE activity = NEW.activity AND sku = NEW.sku;
END;

-- Only these transitions of an order are allowed.
CREATE TRIGGER IF NOT EXISTS orders_move BEFORE UPDATE OF status ON orders WHEN NEW.status <> OLD.status
BEGIN
  SELECT RAISE(ABORT, 'illegal move') WHERE NOT CASE OLD.status
    WHEN 'pending_payment' THEN NEW.status IN ('paid', 'cancelled', 'expired')
    WHEN 'cancelled' THEN NEW.status IN ('paid', 'refunding')
    WHEN 'expired' THEN NEW.status IN ('paid', 'refunding')
    WHEN 'paid' THEN NEW.status = 'refunding'
    WHEN 'refunding' THEN NEW.status = 'refunded'
    ELSE 0 END;
END;

CREATE TRIGGER IF NOT EXISTS orders_stay BEFORE DELETE ON orders
BEGIN
  SELECT RAISE(ABORT, 'orders are never deleted');
END;

-- Callbacks of payment providers, each recorded once (E2).
CREATE TABLE IF NOT EXISTS callbacks (
  id TEXT PRIMARY KEY,
  type TEXT NOT NULL,
  order_no TEXT NOT NULL,
  payment TEXT NOT NULL DEFAULT '',
  amount INTEGER NOT NULL DEFAULT 0,
  currency TEXT NOT NULL DEFAULT '',
  received_at INTEGER NOT NULL,
  outcome TEXT NOT NULL DEFAULT ''
);

CREATE INDEX IF NOT EXISTS callbacks_open ON callbacks (received_at) WHERE outcome = '';

-- Refunds as durable work: requested, sent, confirmed (E4, I6).
CREATE TABLE IF NOT EXISTS refunds (
  order_no TEXT PRIMARY KEY REFERENCES orders (order_no),
  payment TEXT NOT NULL,
  amount INTEGER NOT NULL,
  currency TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'requested' CHECK (state IN ('requested', 'sent', 'confirmed')),
  attempts INTEGER NOT NULL DEFAULT 0,
  next_try_at INTEGER NOT NULL,
  last_error TEXT NOT NULL DEFAULT ''
);

CREATE INDEX IF NOT EXISTS refunds_open ON refunds (next_try_at) WHERE state <> 'confirmed';

CREATE TRIGGER IF NOT EXISTS refunds_begin AFTER UPDATE OF status ON orders
WHEN NEW.status = 'refunding' AND OLD.status <> 'refunding'
BEGIN
  INSERT INTO refunds (order_no, payment, amount, currency, next_try_at)
  VALUES (NEW.order_no, NEW.payment, NEW.amount, NEW.currency, NEW.updated_at) ON CONFLICT DO NOTHING;
END;

CREATE TRIGGER IF NOT EXISTS refunds_end AFTER UPDATE OF status ON orders
WHEN NEW.status = 'refunded' AND OLD.status <> 'refunded'
BEGIN
  UPDATE refunds SET state = 'confirmed', last_error = '' WHERE order_no = NEW.order_no;
END;

-- Order messages that could not be written, kept for an operator (D4, I4).
CREATE TABLE IF NOT EXISTS dead_letters (
  order_no TEXT PRIMARY KEY,
  message TEXT NOT NULL,
  reason TEXT NOT NULL,
  died_at INTEGER NOT NULL,
  replayed_at INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE IF NOT EXISTS bans (
  kind TEXT NOT NULL CHECK (kind IN ('user', 'ip')),
  name TEXT NOT NULL,
  until INTEGER NOT NULL,
  reason TEXT NOT NULL,
  PRIMARY KEY (kind, name)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS strikes (
  user_id TEXT PRIMARY KEY,
  count INTEGER NOT NULL,
  last_at INTEGER NOT NULL
) WITHOUT ROWID;

-- An order that expires unpaid is a strike against its buyer (B8).
CREATE TRIGGER IF NOT EXISTS strikes_count AFTER UPDATE OF status ON orders
WHEN NEW.status = 'expired' AND OLD.status = 'pending_payment'
BEGIN
  INSERT INTO strikes (user_id, count, last_at) VALUES (NEW.user_id, 1, NEW.updated_at)
  ON CONFLICT (user_id) DO UPDATE SET count = count + 1, last_at = excluded.last_at;
END;

CREATE TABLE IF NOT EXISTS schema_versions (version INTEGER PRIMARY KEY);

INSERT INTO schema_versions (version) VALUES (1) ON CONFLICT DO NOTHING;
