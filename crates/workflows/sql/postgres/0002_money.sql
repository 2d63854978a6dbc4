-- Switches, outbox, payment sessions, addresses and overpayments.
-- Statements are separated by blank lines: the drivers run one at a time.

-- Switches that the operators' variables set; the triggers below read them.
CREATE TABLE IF NOT EXISTS switches (
  name TEXT PRIMARY KEY,
  is_on BIGINT NOT NULL CHECK (is_on IN (0, 1))
);

-- The outbox (E7): each transition of an order inserts an event in the same statement. `step` is the position of the
-- status in an order's life. An order reaches each position at most once, so `step` identifies the events of one order,
-- and sorts them.
CREATE TABLE IF NOT EXISTS events (
  order_no TEXT NOT NULL,
  step BIGINT NOT NULL,
  status TEXT NOT NULL,
  reason TEXT NOT NULL,
  pay_by BIGINT NOT NULL,
  paid_at BIGINT NOT NULL,
  happened_at BIGINT NOT NULL,
  state TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'delivered', 'failed')),
  attempts BIGINT NOT NULL DEFAULT 0,
  next_try_at BIGINT NOT NULL,
  last_error TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (order_no, step)
);

CREATE INDEX IF NOT EXISTS events_waiting ON events (next_try_at) WHERE state = 'waiting';

CREATE INDEX IF NOT EXISTS events_ended ON events (state, happened_at) WHERE state <> 'waiting';

-- A trigger for whole batches: one for each row would slow down the order writer.
CREATE OR REPLACE FUNCTION events_of_new() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM switches WHERE name = 'events' AND is_on = 1) THEN
    INSERT INTO events (order_no, step, status, reason, pay_by, paid_at, happened_at, next_try_at)
    SELECT order_no, 1, status, reason, pay_by, paid_at, updated_at, updated_at FROM fresh
    ON CONFLICT DO NOTHING;
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER events_of_new AFTER INSERT ON orders REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION events_of_new();

CREATE OR REPLACE FUNCTION events_of_moves() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM switches WHERE name = 'events' AND is_on = 1) THEN
    INSERT INTO events (order_no, step, status, reason, pay_by, paid_at, happened_at, next_try_at)
    VALUES (NEW.order_no,
      CASE NEW.status WHEN 'paid' THEN 3 WHEN 'refunding' THEN 4 WHEN 'refunded' THEN 5 ELSE 2 END,
      NEW.status, NEW.reason, NEW.pay_by, NEW.paid_at, NEW.updated_at, NEW.updated_at) ON CONFLICT DO NOTHING;
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER events_of_moves AFTER UPDATE OF status ON orders FOR EACH ROW
  WHEN (NEW.status <> OLD.status) EXECUTE FUNCTION events_of_moves();

-- An order that could not be written has failed. A message that cannot be parsed has no order number to report.
CREATE OR REPLACE FUNCTION events_of_failures() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM switches WHERE name = 'events' AND is_on = 1) THEN
    INSERT INTO events (order_no, step, status, reason, pay_by, paid_at, happened_at, next_try_at)
    VALUES (NEW.order_no, 0, 'failed', NEW.reason, 0, 0, NEW.died_at, NEW.died_at) ON CONFLICT DO NOTHING;
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER events_of_failures AFTER INSERT ON dead_letters FOR EACH ROW
  WHEN (NEW.reason <> 'unreadable') EXECUTE FUNCTION events_of_failures();

-- Endpoints that receive events: disabled after a 410, paused after a 429, 502 or 504 or without a response.
CREATE TABLE IF NOT EXISTS endpoints (
  url TEXT PRIMARY KEY,
  disabled_at BIGINT NOT NULL DEFAULT 0,
  rest_until BIGINT NOT NULL DEFAULT 0,
  pace BIGINT NOT NULL CHECK (pace > 0)
);

-- Payment sessions that the provider must be asked about before their order is released: one for each order.
CREATE TABLE IF NOT EXISTS sessions (
  order_no TEXT PRIMARY KEY REFERENCES orders (order_no),
  session TEXT NOT NULL,
  url TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'closed')),
  attempts BIGINT NOT NULL DEFAULT 0,
  next_ask_at BIGINT NOT NULL,
  last_error TEXT NOT NULL DEFAULT ''
);

CREATE INDEX IF NOT EXISTS sessions_open ON sessions (next_ask_at) WHERE state = 'open';

-- A payment closes its session. The session of a released order is due to be closed at the provider.
CREATE OR REPLACE FUNCTION sessions_follow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE sessions SET state = CASE WHEN NEW.status = 'paid' THEN 'closed' ELSE state END, next_ask_at = NEW.updated_at
  WHERE order_no = NEW.order_no;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER sessions_follow AFTER UPDATE OF status ON orders FOR EACH ROW
  WHEN (NEW.status <> OLD.status AND OLD.status = 'pending_payment') EXECUTE FUNCTION sessions_follow();

-- Delivery addresses: encrypted, readable by the application only, and erased after their retention time (E1).
CREATE TABLE IF NOT EXISTS addresses (
  order_no TEXT PRIMARY KEY REFERENCES orders (order_no),
  sealed TEXT NOT NULL,
  saved_at BIGINT NOT NULL
);

CREATE INDEX IF NOT EXISTS addresses_old ON addresses (saved_at);

-- The provider's id of a refund, and how often the provider reported a failure: the attempt after a failure is a new
-- refund.
ALTER TABLE refunds ADD COLUMN IF NOT EXISTS refund TEXT NOT NULL DEFAULT '';

ALTER TABLE refunds ADD COLUMN IF NOT EXISTS failures BIGINT NOT NULL DEFAULT 0;

-- Payments that are refunded without changing their order: they came a second time, or an operator decided so (I6).
CREATE TABLE IF NOT EXISTS overpayments (
  payment TEXT PRIMARY KEY,
  order_no TEXT NOT NULL,
  amount BIGINT NOT NULL,
  currency TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'requested' CHECK (state IN ('requested', 'sent', 'confirmed')),
  attempts BIGINT NOT NULL DEFAULT 0,
  next_try_at BIGINT NOT NULL,
  last_error TEXT NOT NULL DEFAULT '',
  refund TEXT NOT NULL DEFAULT '',
  failures BIGINT NOT NULL DEFAULT 0
);

CREATE INDEX IF NOT EXISTS overpayments_open ON overpayments (next_try_at) WHERE state <> 'confirmed';

ALTER TABLE callbacks ADD COLUMN IF NOT EXISTS refund TEXT NOT NULL DEFAULT '';

CREATE INDEX IF NOT EXISTS callbacks_of_order ON callbacks (order_no);

CREATE INDEX IF NOT EXISTS callbacks_done ON callbacks (received_at) WHERE outcome <> '';

INSERT INTO schema_versions (version) VALUES (2) ON CONFLICT DO NOTHING;
