-- The ledger's schema. Invariants are enforced here, not by the code that writes.
-- Statements are separated by blank lines: the drivers run one at a time.

CREATE TABLE IF NOT EXISTS schema_versions (version BIGINT PRIMARY KEY);

-- `totals` is the JSON array of the SKUs' names and totals. Triggers write it into `skus`, so that an activity and its
-- SKUs change in one statement, or not at all.
CREATE TABLE IF NOT EXISTS activities (
  id TEXT PRIMARY KEY,
  spec TEXT NOT NULL,
  totals TEXT NOT NULL,
  starts_at BIGINT NOT NULL,
  ends_at BIGINT NOT NULL CHECK (ends_at > starts_at),
  pay_timeout_ms BIGINT NOT NULL CHECK (pay_timeout_ms > 0),
  pay_extension_ms BIGINT NOT NULL CHECK (pay_extension_ms >= 0),
  per_user BIGINT NOT NULL CHECK (per_user > 0),
  refund_restocks BIGINT NOT NULL CHECK (refund_restocks IN (0, 1)),
  state TEXT NOT NULL CHECK (state IN ('draft', 'published', 'paused', 'closed', 'erasing')),
  nonce TEXT NOT NULL,
  version BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  announcement TEXT NOT NULL DEFAULT ''
);

-- `live` counts the units that orders hold. Triggers maintain it, and the CHECK keeps it within the total (C5, I2).
CREATE TABLE IF NOT EXISTS skus (
  activity TEXT NOT NULL REFERENCES activities (id),
  sku TEXT NOT NULL,
  total BIGINT NOT NULL CHECK (total >= -1),
  live BIGINT NOT NULL DEFAULT 0 CHECK (live >= 0),
  PRIMARY KEY (activity, sku),
  CHECK (total = -1 OR live <= total)
);

-- I7: an order has the number of its ticket, so the primary key makes a ticket single-use. `unsynced_since` is the
-- time of the last change that Redis has not confirmed; 0 if Redis has confirmed them all. `provider` opened the payment
-- session, and only its callbacks change the order. `checkout_failed` is set while no checkout has opened a session since
-- the provider refused one or did not answer. Until `free_cancel_until` a buyer's first cancel is no strike.
-- `was_cancelled` stays if the order is paid after its cancel: that cancel was the first. `epoch` and `sequence` say which
-- gate accepted the order, and as which of its orders. `written_at` is when the order writer inserted it.
-- `refunded` is the sum of its `refund_parts`.
--
-- Order numbers are compared byte by byte (`COLLATE "C"`), whatever the collation of the database: the orders of an
-- activity, whose numbers begin with its id and a dot, are one range of the index, and sorted by time.
CREATE TABLE IF NOT EXISTS orders (
  order_no TEXT COLLATE "C" PRIMARY KEY,
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
  free_cancel_until BIGINT NOT NULL DEFAULT 0,
  was_cancelled BIGINT NOT NULL DEFAULT 0 CHECK (was_cancelled IN (0, 1)),
  paid_at BIGINT NOT NULL DEFAULT 0,
  extended BIGINT NOT NULL DEFAULT 0 CHECK (extended IN (0, 1)),
  checkout_url TEXT NOT NULL DEFAULT '',
  payment TEXT NOT NULL DEFAULT '',
  provider TEXT NOT NULL DEFAULT '',
  checkout_failed BIGINT NOT NULL DEFAULT 0 CHECK (checkout_failed IN (0, 1)),
  refunded BIGINT NOT NULL DEFAULT 0 CHECK (refunded BETWEEN 0 AND amount),
  written_at BIGINT NOT NULL DEFAULT 0,
  updated_at BIGINT NOT NULL,
  unsynced_since BIGINT NOT NULL DEFAULT 0,
  epoch BIGINT NOT NULL DEFAULT 0,
  sequence BIGINT CHECK (sequence > 0),
  FOREIGN KEY (activity, sku) REFERENCES skus (activity, sku),
  CHECK (CASE
    WHEN status IN ('pending_payment', 'paid') THEN live = 1
    WHEN status IN ('cancelled', 'expired', 'failed') THEN live = 0
    ELSE status IN ('refunding', 'refunded') END)
);

-- SKUs are written in the order of their names, like every statement that locks several of them.
CREATE OR REPLACE FUNCTION activities_save_skus() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO skus (activity, sku, total)
    SELECT NEW.id, e ->> 0, (e ->> 1)::bigint FROM jsonb_array_elements(NEW.totals::jsonb) AS e ORDER BY e ->> 0
    ON CONFLICT (activity, sku) DO UPDATE SET total = excluded.total;
  DELETE FROM skus WHERE activity = NEW.id AND live = 0
    AND sku NOT IN (SELECT e ->> 0 FROM jsonb_array_elements(NEW.totals::jsonb) AS e)
    AND NOT EXISTS (SELECT 1 FROM orders WHERE orders.activity = skus.activity AND orders.sku = skus.sku);
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER activities_save_skus AFTER INSERT OR UPDATE OF totals ON activities FOR EACH ROW
  EXECUTE FUNCTION activities_save_skus();

CREATE OR REPLACE FUNCTION activities_delete_skus() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM skus WHERE activity = OLD.id;
  DELETE FROM order_counts WHERE activity = OLD.id;
  DELETE FROM sale_states WHERE activity = OLD.id AND sku <> '';
  DELETE FROM events WHERE subject = OLD.id AND state <> 'waiting';
  RETURN OLD;
END $$;

CREATE OR REPLACE TRIGGER activities_delete_skus BEFORE DELETE ON activities FOR EACH ROW
  EXECUTE FUNCTION activities_delete_skus();

CREATE INDEX IF NOT EXISTS activities_by_end ON activities (ends_at);

CREATE INDEX IF NOT EXISTS activities_by_start ON activities (starts_at DESC, id);

CREATE INDEX IF NOT EXISTS orders_of_user ON orders (user_id, created_at, order_no);

-- What a buyer holds of a SKU, and whether a SKU that is deleted has orders.
CREATE INDEX IF NOT EXISTS orders_of_sku ON orders (activity, sku, user_id);

-- G16: a second order with the same sequence shows that Redis lost the first.
CREATE UNIQUE INDEX IF NOT EXISTS orders_by_sequence ON orders (activity, epoch, sequence) WHERE sequence IS NOT NULL;

CREATE INDEX IF NOT EXISTS orders_due ON orders (activity, pay_by) WHERE status = 'pending_payment';

CREATE INDEX IF NOT EXISTS orders_unsynced ON orders (activity, unsynced_since) WHERE unsynced_since > 0;

-- The order of a failed refund that names only the payment.
CREATE INDEX IF NOT EXISTS orders_of_payment ON orders (payment) WHERE payment <> '';

-- The code that buyers see, by which operators find an order.
CREATE INDEX IF NOT EXISTS orders_by_code ON orders ((right(order_no, 8)));

-- Orders of an activity by status, for operators. Those that wait for payment are in `orders_due`, so that the order writer
-- has one index less to write.
CREATE INDEX IF NOT EXISTS orders_by_change ON orders (activity, status, updated_at) WHERE status <> 'pending_payment';

-- Orders and their units by SKU, status and whether they hold units: sums that are read instead of the orders. Triggers
-- maintain them, each connection in one of 16 slots: payments of a SKU that changed the same row would wait for each
-- other. The sum over the slots counts; one slot alone may be negative.
CREATE TABLE IF NOT EXISTS order_counts (
  activity TEXT NOT NULL,
  sku TEXT NOT NULL,
  status TEXT NOT NULL,
  live BIGINT NOT NULL,
  slot BIGINT NOT NULL DEFAULT 0,
  orders BIGINT NOT NULL,
  units BIGINT NOT NULL,
  PRIMARY KEY (activity, sku, status, live, slot)
);

-- A batch that would oversell (C5, I2: the CHECK of `skus`) or exceed a buyer's limit (I3) is refused as a whole; the
-- writer then inserts its orders one by one. Row by row, each order of a batch would create a new version of its SKU's
-- row, and the next one would have to skip all of them.
--
-- Locking the SKUs' rows makes concurrent writers run one after the other and see each other's rows. Every statement
-- that locks the rows of several SKUs locks them in the order of their names: in any other order two statements could
-- wait for each other, and PostgreSQL would end one of them as a deadlock. `NO KEY UPDATE` is the lock of the update
-- that follows: a stronger lock would keep orders from referring to the SKU. Rows of `order_counts` are locked after
-- those of `skus`, in the order of their key.
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
  INSERT INTO order_counts (activity, sku, status, live, slot, orders, units)
    SELECT activity, sku, status, live, pg_backend_pid() % 16, COUNT(*), SUM(quantity) FROM fresh
    GROUP BY activity, sku, status, live
    ORDER BY activity, sku, status, live
    ON CONFLICT (activity, sku, status, live, slot) DO UPDATE
    SET orders = order_counts.orders + excluded.orders, units = order_counts.units + excluded.units;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER orders_fit AFTER INSERT ON orders REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION orders_fit_batch();

-- The same for orders that change together, for example those that a sweeper releases. A payment changes no `live`, and
-- locks no row of `skus`.
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
  INSERT INTO order_counts (activity, sku, status, live, slot, orders, units)
    SELECT activity, sku, status, live, pg_backend_pid() % 16, SUM(change), SUM(change * quantity)
    FROM (SELECT activity, sku, status, live, quantity, 1 AS change FROM later
      UNION ALL SELECT activity, sku, status, live, quantity, -1 FROM earlier) AS moved
    GROUP BY activity, sku, status, live HAVING SUM(change) <> 0 OR SUM(change * quantity) <> 0
    ORDER BY activity, sku, status, live
    ON CONFLICT (activity, sku, status, live, slot) DO UPDATE
    SET orders = order_counts.orders + excluded.orders, units = order_counts.units + excluded.units;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER orders_recount AFTER UPDATE ON orders REFERENCING OLD TABLE AS earlier NEW TABLE AS later
  FOR EACH STATEMENT EXECUTE FUNCTION orders_recount_batch();

-- Only these transitions of an order are allowed: those of crates/domain/src/order.rs, with which a unit test compares
-- them.
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

-- Orders are deleted only with their activity, after its retention time.
CREATE OR REPLACE FUNCTION orders_stay() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM activities WHERE id = OLD.activity AND state = 'erasing') THEN
    RAISE EXCEPTION 'orders are never deleted';
  END IF;
  RETURN OLD;
END $$;

CREATE OR REPLACE TRIGGER orders_stay BEFORE DELETE ON orders FOR EACH ROW EXECUTE FUNCTION orders_stay();

-- Callbacks of payment providers, each recorded once (E2). `session` is the payment session that a callback is about:
-- the end of an earlier session does not end the latest one. `provider` signed it; empty if the app asked the provider.
-- `attempts` counts the sweeps that failed to apply it, `next_try_at` is when the next one tries. At `decided_at` the
-- ledger last decided about it.
CREATE TABLE IF NOT EXISTS callbacks (
  id TEXT PRIMARY KEY,
  type TEXT NOT NULL,
  order_no TEXT COLLATE "C" NOT NULL,
  payment TEXT NOT NULL DEFAULT '',
  amount BIGINT NOT NULL DEFAULT 0,
  currency TEXT NOT NULL DEFAULT '',
  received_at BIGINT NOT NULL,
  outcome TEXT NOT NULL DEFAULT '',
  refund TEXT NOT NULL DEFAULT '',
  session TEXT NOT NULL DEFAULT '',
  other_session BIGINT NOT NULL DEFAULT 0 CHECK (other_session IN (0, 1)),
  provider TEXT NOT NULL DEFAULT '',
  attempts BIGINT NOT NULL DEFAULT 0,
  next_try_at BIGINT NOT NULL,
  decided_at BIGINT NOT NULL DEFAULT 0
);

CREATE INDEX IF NOT EXISTS callbacks_open ON callbacks (next_try_at) WHERE outcome = '';

CREATE INDEX IF NOT EXISTS callbacks_done ON callbacks (received_at) WHERE outcome <> '';

-- Partial index: few callbacks are parked for an operator, and many are processed. An outcome of a later build holds its
-- callback.
CREATE INDEX IF NOT EXISTS callbacks_parked ON callbacks (received_at)
WHERE outcome NOT IN ('', 'paid', 'paid_late', 'payment_named', 'refund_started', 'overpayment_refunded',
  'overpayment_back', 'refunded', 'part_refunded', 'refund_to_retry', 'session_ended', 'no_change', 'given_back',
  'refunded_by_operator', 'dismissed_by_operator');

CREATE INDEX IF NOT EXISTS callbacks_of_order ON callbacks (order_no);

-- Refunds as durable work: requested, sent, confirmed (E4, I6). `refund` is the provider's id; `failures` counts the
-- failures that the provider reported, because the attempt after a failure is a new refund; `failed_refunds` has the ids
-- of those that failed, each in brackets, because a failure may be reported more than once.
CREATE TABLE IF NOT EXISTS refunds (
  order_no TEXT COLLATE "C" PRIMARY KEY REFERENCES orders (order_no),
  payment TEXT NOT NULL,
  amount BIGINT NOT NULL,
  currency TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'requested' CHECK (state IN ('requested', 'sent', 'confirmed')),
  attempts BIGINT NOT NULL DEFAULT 0,
  requested_at BIGINT NOT NULL,
  next_try_at BIGINT NOT NULL,
  last_error TEXT NOT NULL DEFAULT '',
  refund TEXT NOT NULL DEFAULT '',
  failures BIGINT NOT NULL DEFAULT 0,
  failed_refunds TEXT NOT NULL DEFAULT ''
);

CREATE INDEX IF NOT EXISTS refunds_open ON refunds (next_try_at) WHERE state <> 'confirmed';

CREATE OR REPLACE FUNCTION refunds_follow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.status = 'refunding' THEN
    INSERT INTO refunds (order_no, payment, amount, currency, requested_at, next_try_at)
    VALUES (NEW.order_no, NEW.payment, NEW.amount, NEW.currency, NEW.updated_at, NEW.updated_at) ON CONFLICT DO NOTHING;
  ELSIF NEW.status = 'refunded' THEN
    UPDATE refunds SET state = 'confirmed', last_error = '' WHERE order_no = NEW.order_no;
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER refunds_follow AFTER UPDATE OF status ON orders FOR EACH ROW
  WHEN (NEW.status <> OLD.status) EXECUTE FUNCTION refunds_follow();

-- Its refund was not sent to the provider until then, and is due now (E4).
CREATE OR REPLACE FUNCTION refunds_named() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE refunds SET payment = NEW.payment, attempts = 0, next_try_at = 0, last_error = ''
  WHERE order_no = NEW.order_no;
  UPDATE refund_parts SET payment = NEW.payment, attempts = 0, next_try_at = 0, last_error = ''
  WHERE order_no = NEW.order_no;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER refunds_named AFTER UPDATE OF payment ON orders FOR EACH ROW
  WHEN (OLD.payment = 'lost' AND NEW.payment <> OLD.payment) EXECUTE FUNCTION refunds_named();

-- Order messages that could not be written, kept for an operator (D4, I4).
CREATE TABLE IF NOT EXISTS dead_letters (
  order_no TEXT COLLATE "C" PRIMARY KEY,
  message TEXT NOT NULL,
  reason TEXT NOT NULL,
  died_at BIGINT NOT NULL,
  replayed_at BIGINT NOT NULL DEFAULT 0
);

CREATE INDEX IF NOT EXISTS dead_letters_waiting ON dead_letters (died_at, order_no) WHERE replayed_at < died_at;

CREATE INDEX IF NOT EXISTS dead_letters_replayed ON dead_letters (died_at, order_no) WHERE replayed_at >= died_at;

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

-- The users who get no ticket: few, and each instance of `admission` reads them once a second.
CREATE INDEX IF NOT EXISTS strikes_at_limit ON strikes (user_id) WHERE count >= 10;

-- The strikes that the sweeper erases.
CREATE INDEX IF NOT EXISTS strikes_by_age ON strikes (last_at);

-- An order that expires unpaid is a strike against its buyer (B8). So is one that its buyer cancels after half of the
-- time to pay, to which a checkout adds nothing here, and each but the first that a buyer cancels in an activity: they
-- kept units from others. One that its buyer could not pay is none, nor is an operator's cancel. 30 days after the last
-- strike, the count begins again.
-- The `|| ''` keeps the query from indexes of activities, which would read all orders of one.
CREATE OR REPLACE FUNCTION strikes_count() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  -- Concurrent cancels of a buyer would not see each other, and each would count as the first.
  IF NEW.status = 'cancelled' THEN
    PERFORM pg_advisory_xact_lock(hashtextextended(NEW.activity || '/' || NEW.user_id, 0));
  END IF;
  IF NEW.status = 'cancelled' AND NEW.updated_at <= NEW.free_cancel_until
    AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.user_id = NEW.user_id AND o.activity || '' = NEW.activity
      AND o.was_cancelled = 1 AND o.order_no <> NEW.order_no) THEN
    RETURN NULL;
  END IF;
  INSERT INTO strikes (user_id, count, last_at) VALUES (NEW.user_id, 1, NEW.updated_at)
  ON CONFLICT (user_id) DO UPDATE SET last_at = excluded.last_at,
    count = CASE WHEN strikes.last_at <= excluded.last_at - 2592000000 THEN 1 ELSE strikes.count + 1 END;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER strikes_count AFTER UPDATE OF status ON orders FOR EACH ROW
  WHEN (NEW.status IN ('expired', 'cancelled') AND OLD.status = 'pending_payment' AND NEW.checkout_failed = 0
    AND NEW.reason <> 'cancelled_by_operator')
  EXECUTE FUNCTION strikes_count();

-- Switches: `events` follows a variable and is read by the triggers below; load shedding is set by operators (B9).
CREATE TABLE IF NOT EXISTS switches (
  name TEXT PRIMARY KEY,
  is_on BIGINT NOT NULL CHECK (is_on IN (0, 1))
);

-- The outbox (E7): each transition of an order inserts an event in the same statement. `step` is the position of the
-- status in an order's life, or of a part of its refund. An order reaches each position at most once, so `step` identifies the
-- events of one order, and sorts them. `subject` is the order's number. In an event about an activity it is the activity's id,
-- `step` numbers these events (`sale_states`), and `reason` is the SKU or the epoch that it is about. The
-- `subject` of a test is empty. `last_status` is the HTTP status of the last attempt, 0 without a response.
CREATE TABLE IF NOT EXISTS events (
  subject TEXT COLLATE "C" NOT NULL,
  step BIGINT NOT NULL,
  status TEXT NOT NULL,
  reason TEXT NOT NULL,
  pay_by BIGINT NOT NULL,
  paid_at BIGINT NOT NULL,
  refunded BIGINT NOT NULL DEFAULT 0,
  happened_at BIGINT NOT NULL,
  state TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'delivered', 'failed')),
  attempts BIGINT NOT NULL DEFAULT 0,
  next_try_at BIGINT NOT NULL,
  last_try_at BIGINT NOT NULL DEFAULT 0,
  last_status BIGINT NOT NULL DEFAULT 0,
  last_error TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (subject, step)
);

CREATE INDEX IF NOT EXISTS events_waiting ON events (next_try_at) WHERE state = 'waiting';

CREATE INDEX IF NOT EXISTS events_ended ON events (state, happened_at, status) WHERE state <> 'waiting';

-- A trigger for whole batches: one for each row would slow down the order writer.
CREATE OR REPLACE FUNCTION events_of_new() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM switches WHERE name = 'events' AND is_on = 1) THEN
    INSERT INTO events (subject, step, status, reason, pay_by, paid_at, happened_at, next_try_at)
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
    INSERT INTO events (subject, step, status, reason, pay_by, paid_at, refunded, happened_at, next_try_at)
    VALUES (NEW.order_no,
      CASE NEW.status WHEN 'paid' THEN 3 WHEN 'refunding' THEN 1000000 WHEN 'refunded' THEN 1000001 ELSE 2 END,
      NEW.status, NEW.reason, NEW.pay_by, NEW.paid_at, NEW.refunded, NEW.updated_at, NEW.updated_at) ON CONFLICT DO NOTHING;
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER events_of_moves AFTER UPDATE OF status ON orders FOR EACH ROW
  WHEN (NEW.status <> OLD.status) EXECUTE FUNCTION events_of_moves();

-- An order that could not be written has failed. A message that cannot be parsed has no order number to report.
CREATE OR REPLACE FUNCTION events_of_failures() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM switches WHERE name = 'events' AND is_on = 1) THEN
    INSERT INTO events (subject, step, status, reason, pay_by, paid_at, happened_at, next_try_at)
    VALUES (NEW.order_no, 0, 'failed', NEW.reason, 0, 0, NEW.died_at, NEW.died_at) ON CONFLICT DO NOTHING;
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER events_of_failures AFTER INSERT ON dead_letters FOR EACH ROW
  WHEN (NEW.reason <> 'unreadable') EXECUTE FUNCTION events_of_failures();

-- What the shop was last told of each sale, where `sku` is empty, and of each of its SKUs (E7): a trigger makes each change
-- an event. `changes` of a sale numbers all events about it, and is kept when it is erased, so that no event of a later sale
-- with its id has the id of an earlier one. `changes` of a SKU numbers those of the SKU.
CREATE TABLE IF NOT EXISTS sale_states (
  activity TEXT NOT NULL,
  sku TEXT NOT NULL,
  state TEXT NOT NULL,
  changes BIGINT NOT NULL,
  changed_at BIGINT NOT NULL,
  PRIMARY KEY (activity, sku)
);

CREATE OR REPLACE FUNCTION events_of_states() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  number BIGINT := NEW.changes;
BEGIN
  IF NEW.sku <> '' THEN
    UPDATE sale_states SET changes = changes + 1 WHERE activity = NEW.activity AND sku = '' RETURNING changes INTO number;
  END IF;
  IF EXISTS (SELECT 1 FROM switches WHERE name = 'events' AND is_on = 1) THEN
    INSERT INTO events (subject, step, status, reason, pay_by, paid_at, happened_at, next_try_at)
    VALUES (NEW.activity, number, NEW.state, NEW.sku, 0, 0, NEW.changed_at, NEW.changed_at);
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER events_of_states AFTER INSERT OR UPDATE OF state ON sale_states FOR EACH ROW
  WHEN (NEW.state <> '') EXECUTE FUNCTION events_of_states();

-- What an operator changes. A sweep sees what time and orders change.
CREATE OR REPLACE FUNCTION sale_states_follow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO sale_states (activity, sku, state, changes, changed_at)
  VALUES (NEW.id, '', CASE WHEN NEW.state = 'closed' OR NEW.ends_at <= NEW.updated_at THEN 'ended' ELSE NEW.state END,
    1, NEW.updated_at)
  ON CONFLICT (activity, sku) DO UPDATE
  SET state = excluded.state, changes = sale_states.changes + 1, changed_at = excluded.changed_at
  WHERE sale_states.state <> excluded.state;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER sale_states_follow AFTER UPDATE OF state ON activities FOR EACH ROW
  WHEN (NEW.state <> OLD.state AND NEW.state IN ('published', 'paused', 'closed')) EXECUTE FUNCTION sale_states_follow();

-- Endpoints that receive events: paused after a 429, 502 or 504 or without a response; paused after a 410, too, and
-- disabled after the last of several in a row, which `gone` counts.
CREATE TABLE IF NOT EXISTS endpoints (
  url TEXT PRIMARY KEY,
  gone BIGINT NOT NULL DEFAULT 0 CHECK (gone >= 0),
  disabled_at BIGINT NOT NULL DEFAULT 0,
  rest_until BIGINT NOT NULL DEFAULT 0,
  pace BIGINT NOT NULL CHECK (pace > 0)
);

-- Payment sessions that the provider must be asked about before their order is released: the latest of each order, the
-- only one that can be paid. `attempt` is its number among the order's sessions.
CREATE TABLE IF NOT EXISTS sessions (
  order_no TEXT COLLATE "C" PRIMARY KEY REFERENCES orders (order_no),
  provider TEXT NOT NULL,
  session TEXT NOT NULL,
  url TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'closed')),
  attempts BIGINT NOT NULL DEFAULT 0,
  next_ask_at BIGINT NOT NULL,
  last_error TEXT NOT NULL DEFAULT '',
  attempt BIGINT NOT NULL DEFAULT 1,
  opened_at BIGINT NOT NULL
);

CREATE INDEX IF NOT EXISTS sessions_open ON sessions (next_ask_at) WHERE state = 'open';

-- The statement that saves an open session starts the payment of its order: the buyer is sent there, and the time to pay
-- is extended once (E6).
CREATE OR REPLACE FUNCTION sessions_start() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE orders
  SET checkout_url = NEW.url, provider = NEW.provider, checkout_failed = 0, extended = 1, updated_at = NEW.opened_at,
    unsynced_since = NEW.opened_at, pay_by = pay_by + CASE
      WHEN extended = 0 THEN (SELECT a.pay_extension_ms FROM activities a WHERE a.id = orders.activity)
      ELSE 0
    END
  WHERE order_no = NEW.order_no AND status = 'pending_payment' AND pay_by > NEW.opened_at;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER sessions_start AFTER INSERT OR UPDATE OF session ON sessions FOR EACH ROW
  WHEN (NEW.state = 'open') EXECUTE FUNCTION sessions_start();

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
-- `sealed` is empty where none was given: there is no form for it, or the payment page asks. `item` (the SKU of the
-- activity's spec) and `language` are those of the first checkout: the payment page shows them.
CREATE TABLE IF NOT EXISTS addresses (
  order_no TEXT COLLATE "C" PRIMARY KEY REFERENCES orders (order_no),
  sealed TEXT NOT NULL,
  saved_at BIGINT NOT NULL,
  item TEXT NOT NULL,
  language TEXT NOT NULL
);

CREATE INDEX IF NOT EXISTS addresses_old ON addresses (saved_at);

-- Payments that are refunded without changing their order: they came a second time, or an operator decided so (I6).
CREATE TABLE IF NOT EXISTS overpayments (
  payment TEXT PRIMARY KEY,
  provider TEXT NOT NULL,
  order_no TEXT COLLATE "C" NOT NULL,
  amount BIGINT NOT NULL,
  currency TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'requested' CHECK (state IN ('requested', 'sent', 'confirmed')),
  attempts BIGINT NOT NULL DEFAULT 0,
  next_try_at BIGINT NOT NULL,
  last_error TEXT NOT NULL DEFAULT '',
  refund TEXT NOT NULL DEFAULT '',
  failures BIGINT NOT NULL DEFAULT 0,
  failed_refunds TEXT NOT NULL DEFAULT ''
);

CREATE INDEX IF NOT EXISTS overpayments_of_order ON overpayments (order_no);

CREATE INDEX IF NOT EXISTS overpayments_open ON overpayments (next_try_at) WHERE state <> 'confirmed';

-- Parts of payments that were refunded at their provider: the app refunds the rest. `refund` is the provider's id, or names
-- the callback of a refund without one. It is empty where the provider reports the sum of a payment's refunds (Stripe).
CREATE TABLE IF NOT EXISTS partial_refunds (
  payment TEXT NOT NULL,
  refund TEXT NOT NULL,
  order_no TEXT COLLATE "C" NOT NULL,
  amount BIGINT NOT NULL CHECK (amount > 0),
  PRIMARY KEY (payment, refund)
);

CREATE INDEX IF NOT EXISTS partial_refunds_of_order ON partial_refunds (order_no);

-- Parts of payments that operators give back while the order stays paid (E4): durable work like `refunds`. `id` names the
-- operator's request, so that a repeated one is the same part. What the parts leave is refunded with the order.
CREATE TABLE IF NOT EXISTS refund_parts (
  id TEXT PRIMARY KEY,
  order_no TEXT COLLATE "C" NOT NULL,
  payment TEXT NOT NULL,
  amount BIGINT NOT NULL CHECK (amount > 0),
  currency TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'requested' CHECK (state IN ('requested', 'sent', 'confirmed')),
  attempts BIGINT NOT NULL DEFAULT 0,
  requested_at BIGINT NOT NULL,
  next_try_at BIGINT NOT NULL,
  last_error TEXT NOT NULL DEFAULT '',
  refund TEXT NOT NULL DEFAULT '',
  failures BIGINT NOT NULL DEFAULT 0,
  failed_refunds TEXT NOT NULL DEFAULT ''
);

CREATE INDEX IF NOT EXISTS refund_parts_of_order ON refund_parts (order_no);

CREATE INDEX IF NOT EXISTS refund_parts_of_payment ON refund_parts (payment);

CREATE INDEX IF NOT EXISTS refund_parts_open ON refund_parts (next_try_at) WHERE state <> 'confirmed';

-- All parts of an order, those made at the provider included, leave something of its payment: else the part is left out. Of
-- Stripe's refunds the ledger has the sum (`refund` is empty), in which the parts that it accepted are.
CREATE OR REPLACE FUNCTION refund_parts_fit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  -- Requests about one order wait for each other, and each sees the parts before it.
  PERFORM 1 FROM orders WHERE order_no = NEW.order_no FOR UPDATE;
  IF EXISTS (SELECT 1 FROM refund_parts WHERE id = NEW.id) THEN
    RETURN NULL;
  END IF;
  UPDATE orders SET refunded = refunded + NEW.amount, updated_at = NEW.requested_at, unsynced_since = NEW.requested_at
  WHERE order_no = NEW.order_no AND status = 'paid' AND NEW.amount + refunded
        + (SELECT CASE WHEN told > accepted THEN told - accepted ELSE 0 END FROM (SELECT
          (SELECT COALESCE(SUM(t.amount), 0) FROM partial_refunds t WHERE t.payment = NEW.payment AND t.refund = '') AS told,
          (SELECT COALESCE(SUM(c.amount), 0) FROM refund_parts c WHERE c.payment = NEW.payment AND c.state <> 'requested')
            AS accepted) AS sums)
        + (SELECT COALESCE(SUM(p.amount), 0) FROM partial_refunds p WHERE p.payment = NEW.payment AND p.refund <> ''
          AND NOT EXISTS (SELECT 1 FROM refund_parts q WHERE q.payment = p.payment AND q.refund = p.refund)) < amount;
  RETURN CASE WHEN FOUND THEN NEW END;
END $$;

CREATE OR REPLACE TRIGGER refund_parts_fit BEFORE INSERT ON refund_parts FOR EACH ROW
  EXECUTE FUNCTION refund_parts_fit();

CREATE OR REPLACE FUNCTION events_of_parts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM switches WHERE name = 'events' AND is_on = 1) THEN
    INSERT INTO events (subject, step, status, reason, pay_by, paid_at, refunded, happened_at, next_try_at)
    SELECT o.order_no, 3 + (SELECT COUNT(*) FROM refund_parts p WHERE p.order_no = o.order_no), 'partially_refunded',
      o.reason, o.pay_by, o.paid_at, o.refunded, NEW.requested_at, NEW.requested_at
    FROM orders o WHERE o.order_no = NEW.order_no ON CONFLICT DO NOTHING;
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER events_of_parts AFTER INSERT ON refund_parts FOR EACH ROW EXECUTE FUNCTION events_of_parts();

-- G5: an order message carries the epoch of the gate that accepted it. A message of an older epoch is not written. `losses`
-- counts the epochs that began because Redis had lost orders (G16); the last one began at `lost_at`.
CREATE TABLE IF NOT EXISTS epochs (
  activity TEXT PRIMARY KEY,
  epoch BIGINT NOT NULL CHECK (epoch > 0),
  losses BIGINT NOT NULL DEFAULT 0,
  lost_at BIGINT NOT NULL DEFAULT 0
);

-- An epoch only rises.
CREATE OR REPLACE FUNCTION epochs_rise() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.epoch <= OLD.epoch THEN
    RAISE EXCEPTION 'illegal move';
  END IF;
  RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER epochs_rise BEFORE UPDATE ON epochs FOR EACH ROW EXECUTE FUNCTION epochs_rise();

CREATE OR REPLACE FUNCTION events_of_losses() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  number BIGINT;
BEGIN
  IF EXISTS (SELECT 1 FROM switches WHERE name = 'events' AND is_on = 1) THEN
    INSERT INTO sale_states (activity, sku, state, changes, changed_at) VALUES (NEW.activity, '', '', 1, NEW.lost_at)
    ON CONFLICT (activity, sku) DO UPDATE SET changes = sale_states.changes + 1 RETURNING changes INTO number;
    INSERT INTO events (subject, step, status, reason, pay_by, paid_at, happened_at, next_try_at)
    VALUES (NEW.activity, number, 'restored', NEW.epoch::text, 0, 0, NEW.lost_at, NEW.lost_at);
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER events_of_losses AFTER UPDATE OF losses ON epochs FOR EACH ROW
  WHEN (NEW.losses > OLD.losses) EXECUTE FUNCTION events_of_losses();

-- Rebuilds that have begun and not ended (G5). `epoch` is the activity's when the rebuild began. `pass` and `position` say
-- how far the backfill is: in this table, because a ledger that is restored from a backup must repeat it.
CREATE TABLE IF NOT EXISTS rebuilds (
  activity TEXT PRIMARY KEY,
  version BIGINT NOT NULL,
  epoch BIGINT NOT NULL,
  pass BIGINT NOT NULL DEFAULT 0,
  position BIGINT NOT NULL DEFAULT 0,
  live_orders_differ BIGINT NOT NULL DEFAULT 0 CHECK (live_orders_differ IN (0, 1)),
  due_at BIGINT NOT NULL,
  lost_at BIGINT NOT NULL DEFAULT 0
);

-- G3: the token grows each time the lease is acquired; a statement under a lease checks it.
CREATE TABLE IF NOT EXISTS leases (
  name TEXT PRIMARY KEY,
  owner TEXT NOT NULL,
  token BIGINT NOT NULL,
  until BIGINT NOT NULL,
  resume_after TEXT NOT NULL DEFAULT ''
);

-- The statement that sets an outcome does what it says. An operator refunds no payment that paid its order, or may have:
-- the order's payment id was lost with a ledger (I6). The order is locked: a concurrent statement that
-- pays it comes first, or waits and finds the payment refunded.
CREATE OR REPLACE FUNCTION callbacks_take_effect() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.outcome = 'refunded_by_operator' THEN
    PERFORM 1 FROM orders WHERE order_no = NEW.order_no FOR NO KEY UPDATE;
    IF EXISTS (SELECT 1 FROM orders WHERE order_no = NEW.order_no AND payment IN (NEW.payment, 'lost')) THEN
      RETURN NULL;
    END IF;
  END IF;
  IF NEW.outcome IN ('overpayment_refunded', 'refunded_by_operator') THEN
    INSERT INTO overpayments (payment, provider, order_no, amount, currency, next_try_at)
    VALUES (NEW.payment, NEW.provider, NEW.order_no, NEW.amount, NEW.currency, NEW.received_at) ON CONFLICT DO NOTHING;
  ELSIF NEW.outcome = 'paid' THEN
    UPDATE orders
    SET status = 'paid', payment = NEW.payment, paid_at = NEW.decided_at, updated_at = NEW.decided_at,
      unsynced_since = NEW.decided_at, provider = CASE WHEN provider = '' THEN NEW.provider ELSE provider END
    WHERE order_no = NEW.order_no AND status = 'pending_payment';
  ELSIF NEW.outcome = 'payment_named' THEN
    UPDATE orders SET payment = NEW.payment, provider = CASE WHEN provider = '' THEN NEW.provider ELSE provider END
    WHERE order_no = NEW.order_no AND payment = 'lost';
  END IF;
  RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER callbacks_take_effect BEFORE UPDATE OF outcome ON callbacks FOR EACH ROW
  WHEN (NEW.outcome <> OLD.outcome) EXECUTE FUNCTION callbacks_take_effect();

-- A payment that is an overpayment cannot pay an order, in any statement: the row stays unchanged.
CREATE OR REPLACE FUNCTION orders_payment() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM overpayments WHERE payment = NEW.payment) THEN
    RETURN NULL;
  END IF;
  RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER orders_payment BEFORE UPDATE OF payment ON orders FOR EACH ROW
  WHEN (NEW.payment <> OLD.payment) EXECUTE FUNCTION orders_payment();

-- Which payment may pay which order: the outcome of each callback, as far as it follows from the ledger (E2, E5, I6). Empty
-- for one that `dispatch` in crates/payments/src/callbacks.rs decides: a payment of a released order, which needs free
-- units, and what is no payment. The provider that has an overpayment need not be that of its order.
CREATE OR REPLACE VIEW callback_decisions AS
SELECT c.id, CASE WHEN p.payment IS NULL THEN 0 ELSE 1 END AS is_overpayment, CASE
  WHEN c.outcome <> '' THEN c.outcome
  WHEN c.type = 'refund.failed' AND c.order_no = '' THEN ''
  WHEN o.order_no IS NULL AND p.payment IS NULL THEN 'unknown_order'
  WHEN c.provider <> COALESCE(p.provider, o.provider) AND '' NOT IN (c.provider, COALESCE(p.provider, o.provider))
    THEN 'wrong_provider'
  WHEN c.type <> 'payment.succeeded' THEN ''
  WHEN p.payment IS NOT NULL THEN 'given_back'
  WHEN c.amount <> o.amount OR c.currency <> o.currency THEN 'wrong_amount'
  WHEN o.status = 'pending_payment' THEN 'paid'
  WHEN o.status IN ('cancelled', 'expired') THEN ''
  WHEN o.payment = 'lost' AND c.payment = '' THEN 'unknown_payment'
  WHEN o.payment = 'lost' THEN 'payment_named'
  WHEN c.payment = '' THEN 'paid_twice'
  WHEN o.payment <> c.payment THEN 'overpayment_refunded'
  ELSE 'no_change' END AS outcome
FROM callbacks c
LEFT JOIN orders o ON o.order_no = c.order_no
LEFT JOIN overpayments p ON p.payment = c.payment;

-- The statement that records a callback, or sets `decided_at`, decides about it: one transaction of the ledger for a
-- payment. The order is locked first: of two payments, the second finds the order paid.
CREATE OR REPLACE FUNCTION callbacks_decide() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM orders WHERE order_no = NEW.order_no FOR NO KEY UPDATE;
  UPDATE callbacks SET outcome = (SELECT outcome FROM callback_decisions WHERE id = NEW.id) WHERE id = NEW.id;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER callbacks_decide AFTER INSERT OR UPDATE OF decided_at ON callbacks FOR EACH ROW
  WHEN (NEW.outcome = '') EXECUTE FUNCTION callbacks_decide();

-- What operators changed (G2): who, what, when, before and after. Rows are only added.
CREATE TABLE IF NOT EXISTS operator_changes (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  changed_at BIGINT NOT NULL,
  operator TEXT NOT NULL,
  action TEXT NOT NULL,
  subject TEXT COLLATE "C" NOT NULL,
  before TEXT NOT NULL,
  after TEXT NOT NULL,
  request_id TEXT NOT NULL
);

CREATE INDEX IF NOT EXISTS operator_changes_of_subject ON operator_changes (subject);

CREATE OR REPLACE FUNCTION operator_changes_stay() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'illegal move';
END $$;

CREATE OR REPLACE TRIGGER operator_changes_stay BEFORE UPDATE ON operator_changes FOR EACH ROW
  EXECUTE FUNCTION operator_changes_stay();

INSERT INTO schema_versions (version) VALUES (1) ON CONFLICT DO NOTHING;
