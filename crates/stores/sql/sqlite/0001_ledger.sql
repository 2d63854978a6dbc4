-- The ledger's schema. Invariants are enforced here, not by the code that writes.
-- Statements are separated by blank lines: the drivers run one at a time.

CREATE TABLE IF NOT EXISTS schema_versions (version INTEGER PRIMARY KEY);

PRAGMA journal_mode = WAL;

-- `totals` is the JSON array of the SKUs' names and totals. Triggers write it into `skus`, so that an activity and its
-- SKUs change in one statement, or not at all.
CREATE TABLE IF NOT EXISTS activities (
  id TEXT PRIMARY KEY,
  spec TEXT NOT NULL,
  totals TEXT NOT NULL,
  starts_at INTEGER NOT NULL,
  ends_at INTEGER NOT NULL CHECK (ends_at > starts_at),
  pay_timeout_ms INTEGER NOT NULL CHECK (pay_timeout_ms > 0),
  pay_extension_ms INTEGER NOT NULL CHECK (pay_extension_ms >= 0),
  per_user INTEGER NOT NULL CHECK (per_user > 0),
  refund_restocks INTEGER NOT NULL CHECK (refund_restocks IN (0, 1)),
  state TEXT NOT NULL CHECK (state IN ('draft', 'published', 'paused', 'closed', 'erasing')),
  nonce TEXT NOT NULL,
  version INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  announcement TEXT NOT NULL DEFAULT ''
);

-- `live` counts the units that orders hold. Triggers maintain it, and the CHECK keeps it within the total (C5, I2).
CREATE TABLE IF NOT EXISTS skus (
  activity TEXT NOT NULL REFERENCES activities (id),
  sku TEXT NOT NULL,
  total INTEGER NOT NULL CHECK (total >= -1),
  live INTEGER NOT NULL DEFAULT 0 CHECK (live >= 0),
  PRIMARY KEY (activity, sku),
  CHECK (total = -1 OR live <= total)
) WITHOUT ROWID;

-- I7: an order has the number of its ticket, so the primary key makes a ticket single-use. `unsynced_since` is the
-- time of the last change that Redis has not confirmed; 0 if Redis has confirmed them all. `provider` opened the payment
-- session, and only its callbacks change the order. `checkout_failed` is set while no checkout has opened a session since
-- the provider refused one or did not answer. Until `free_cancel_until` a buyer's first cancel is no strike.
-- `was_cancelled` stays if the order is paid after its cancel: that cancel was the first. `epoch` and `sequence` say which
-- gate accepted the order, and as which of its orders. `written_at` is when the order writer inserted it.
-- `refunded` is the sum of its `refund_parts`.
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
  free_cancel_until INTEGER NOT NULL DEFAULT 0,
  was_cancelled INTEGER NOT NULL DEFAULT 0 CHECK (was_cancelled IN (0, 1)),
  paid_at INTEGER NOT NULL DEFAULT 0,
  extended INTEGER NOT NULL DEFAULT 0 CHECK (extended IN (0, 1)),
  checkout_url TEXT NOT NULL DEFAULT '',
  payment TEXT NOT NULL DEFAULT '',
  provider TEXT NOT NULL DEFAULT '',
  checkout_failed INTEGER NOT NULL DEFAULT 0 CHECK (checkout_failed IN (0, 1)),
  refunded INTEGER NOT NULL DEFAULT 0 CHECK (refunded BETWEEN 0 AND amount),
  written_at INTEGER NOT NULL DEFAULT 0,
  updated_at INTEGER NOT NULL,
  unsynced_since INTEGER NOT NULL DEFAULT 0,
  epoch INTEGER NOT NULL DEFAULT 0,
  sequence INTEGER CHECK (sequence > 0),
  FOREIGN KEY (activity, sku) REFERENCES skus (activity, sku),
  CHECK (CASE
    WHEN status IN ('pending_payment', 'paid') THEN live = 1
    WHEN status IN ('cancelled', 'expired', 'failed') THEN live = 0
    ELSE status IN ('refunding', 'refunded') END)
);

CREATE TRIGGER IF NOT EXISTS activities_insert_skus AFTER INSERT ON activities
BEGIN
  INSERT INTO skus (activity, sku, total) SELECT NEW.id, e.value ->> 0, e.value ->> 1 FROM json_each(NEW.totals) AS e;
END;

CREATE TRIGGER IF NOT EXISTS activities_update_skus AFTER UPDATE OF totals ON activities
BEGIN
  INSERT INTO skus (activity, sku, total) SELECT NEW.id, e.value ->> 0, e.value ->> 1 FROM json_each(NEW.totals) AS e
    WHERE 1 = 1 ON CONFLICT (activity, sku) DO UPDATE SET total = excluded.total;
  DELETE FROM skus WHERE activity = NEW.id AND live = 0
    AND sku NOT IN (SELECT e.value ->> 0 FROM json_each(NEW.totals) AS e)
    AND NOT EXISTS (SELECT 1 FROM orders WHERE orders.activity = skus.activity AND orders.sku = skus.sku);
END;

CREATE TRIGGER IF NOT EXISTS activities_delete_skus BEFORE DELETE ON activities
BEGIN
  DELETE FROM skus WHERE activity = OLD.id;
  DELETE FROM order_counts WHERE activity = OLD.id;
  DELETE FROM sale_states WHERE activity = OLD.id AND sku <> '';
  DELETE FROM events WHERE subject = OLD.id AND state <> 'waiting';
END;

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
CREATE INDEX IF NOT EXISTS orders_by_code ON orders (substr(order_no, -8));

-- Orders of an activity by status, for operators. Those that wait for payment are in `orders_due`, so that the order writer
-- has one index less to write.
CREATE INDEX IF NOT EXISTS orders_by_change ON orders (activity, status, updated_at) WHERE status <> 'pending_payment';

-- Orders and their units by SKU, status and whether they hold units: sums that are read instead of the orders. Triggers
-- maintain them. `slot` is always 0 here.
CREATE TABLE IF NOT EXISTS order_counts (
  activity TEXT NOT NULL,
  sku TEXT NOT NULL,
  status TEXT NOT NULL,
  live INTEGER NOT NULL,
  slot INTEGER NOT NULL DEFAULT 0,
  orders INTEGER NOT NULL,
  units INTEGER NOT NULL,
  PRIMARY KEY (activity, sku, status, live, slot)
) WITHOUT ROWID;

-- A row that would oversell (C5, I2) or exceed a buyer's limit (I3) is left out of its batch, and its order fails.
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

CREATE TRIGGER IF NOT EXISTS orders_count AFTER INSERT ON orders
BEGIN
  UPDATE skus SET live = live + NEW.quantity
  WHERE activity = NEW.activity AND sku = NEW.sku AND NEW.live = 1;
  INSERT INTO order_counts (activity, sku, status, live, orders, units)
  VALUES (NEW.activity, NEW.sku, NEW.status, NEW.live, 1, NEW.quantity)
  ON CONFLICT DO UPDATE SET orders = orders + excluded.orders, units = units + excluded.units;
END;

CREATE TRIGGER IF NOT EXISTS orders_recount AFTER UPDATE OF status, live ON orders
WHEN NEW.status <> OLD.status OR NEW.live <> OLD.live
BEGIN
  UPDATE skus SET live = live + NEW.quantity * (NEW.live - OLD.live)
  WHERE activity = NEW.activity AND sku = NEW.sku AND NEW.live <> OLD.live;
  INSERT INTO order_counts (activity, sku, status, live, orders, units)
  VALUES (OLD.activity, OLD.sku, OLD.status, OLD.live, -1, -OLD.quantity),
    (NEW.activity, NEW.sku, NEW.status, NEW.live, 1, NEW.quantity)
  ON CONFLICT DO UPDATE SET orders = orders + excluded.orders, units = units + excluded.units;
END;

-- Only these transitions of an order are allowed: those of crates/domain/src/order.rs, with which a unit test compares
-- them.
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

-- Orders are deleted only with their activity, after its retention time.
CREATE TRIGGER IF NOT EXISTS orders_stay BEFORE DELETE ON orders
WHEN NOT EXISTS (SELECT 1 FROM activities WHERE id = OLD.activity AND state = 'erasing')
BEGIN
  SELECT RAISE(ABORT, 'orders are never deleted');
END;

-- Callbacks of payment providers, each recorded once (E2). `session` is the payment session that a callback is about:
-- the end of an earlier session does not end the latest one. `provider` signed it; empty if the app asked the provider.
-- `attempts` counts the sweeps that failed to apply it, `next_try_at` is when the next one tries. At `decided_at` the
-- ledger last decided about it.
CREATE TABLE IF NOT EXISTS callbacks (
  id TEXT PRIMARY KEY,
  type TEXT NOT NULL,
  order_no TEXT NOT NULL,
  payment TEXT NOT NULL DEFAULT '',
  amount INTEGER NOT NULL DEFAULT 0,
  currency TEXT NOT NULL DEFAULT '',
  received_at INTEGER NOT NULL,
  outcome TEXT NOT NULL DEFAULT '',
  refund TEXT NOT NULL DEFAULT '',
  session TEXT NOT NULL DEFAULT '',
  other_session INTEGER NOT NULL DEFAULT 0 CHECK (other_session IN (0, 1)),
  provider TEXT NOT NULL DEFAULT '',
  attempts INTEGER NOT NULL DEFAULT 0,
  next_try_at INTEGER NOT NULL,
  decided_at INTEGER NOT NULL DEFAULT 0
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
  order_no TEXT PRIMARY KEY REFERENCES orders (order_no),
  payment TEXT NOT NULL,
  amount INTEGER NOT NULL,
  currency TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'requested' CHECK (state IN ('requested', 'sent', 'confirmed')),
  attempts INTEGER NOT NULL DEFAULT 0,
  requested_at INTEGER NOT NULL,
  next_try_at INTEGER NOT NULL,
  last_error TEXT NOT NULL DEFAULT '',
  refund TEXT NOT NULL DEFAULT '',
  failures INTEGER NOT NULL DEFAULT 0,
  failed_refunds TEXT NOT NULL DEFAULT ''
);

CREATE INDEX IF NOT EXISTS refunds_open ON refunds (next_try_at) WHERE state <> 'confirmed';

CREATE TRIGGER IF NOT EXISTS refunds_begin AFTER UPDATE OF status ON orders
WHEN NEW.status = 'refunding' AND OLD.status <> 'refunding'
BEGIN
  INSERT INTO refunds (order_no, payment, amount, currency, requested_at, next_try_at)
  VALUES (NEW.order_no, NEW.payment, NEW.amount, NEW.currency, NEW.updated_at, NEW.updated_at) ON CONFLICT DO NOTHING;
END;

CREATE TRIGGER IF NOT EXISTS refunds_end AFTER UPDATE OF status ON orders
WHEN NEW.status = 'refunded' AND OLD.status <> 'refunded'
BEGIN
  UPDATE refunds SET state = 'confirmed', last_error = '' WHERE order_no = NEW.order_no;
END;

-- Its refund was not sent to the provider until then, and is due now (E4).
CREATE TRIGGER IF NOT EXISTS refunds_named AFTER UPDATE OF payment ON orders
WHEN OLD.payment = 'lost' AND NEW.payment <> OLD.payment
BEGIN
  UPDATE refunds SET payment = NEW.payment, attempts = 0, next_try_at = 0, last_error = ''
  WHERE order_no = NEW.order_no;
  UPDATE refund_parts SET payment = NEW.payment, attempts = 0, next_try_at = 0, last_error = ''
  WHERE order_no = NEW.order_no;
END;

-- Order messages that could not be written, kept for an operator (D4, I4).
CREATE TABLE IF NOT EXISTS dead_letters (
  order_no TEXT PRIMARY KEY,
  message TEXT NOT NULL,
  reason TEXT NOT NULL,
  died_at INTEGER NOT NULL,
  replayed_at INTEGER NOT NULL DEFAULT 0
);

CREATE INDEX IF NOT EXISTS dead_letters_waiting ON dead_letters (died_at, order_no) WHERE replayed_at < died_at;

CREATE INDEX IF NOT EXISTS dead_letters_replayed ON dead_letters (died_at, order_no) WHERE replayed_at >= died_at;

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

-- The users who get no ticket: few, and each instance of `admission` reads them once a second.
CREATE INDEX IF NOT EXISTS strikes_at_limit ON strikes (user_id) WHERE count >= 10;

-- The strikes that the sweeper erases.
CREATE INDEX IF NOT EXISTS strikes_by_age ON strikes (last_at);

-- An order that expires unpaid is a strike against its buyer (B8). So is one that its buyer cancels after half of the
-- time to pay, to which a checkout adds nothing here, and each but the first that a buyer cancels in an activity: they
-- kept units from others. One that its buyer could not pay is none, nor is an operator's cancel. 30 days after the last
-- strike, the count begins again.
-- The `+` keeps the query from indexes of activities, which would read all orders of one.
CREATE TRIGGER IF NOT EXISTS strikes_count AFTER UPDATE OF status ON orders
WHEN OLD.status = 'pending_payment' AND NEW.checkout_failed = 0 AND NEW.reason <> 'cancelled_by_operator'
  AND (NEW.status = 'expired' OR NEW.status = 'cancelled' AND (
  NEW.updated_at > NEW.free_cancel_until
  OR EXISTS (SELECT 1 FROM orders o WHERE o.user_id = NEW.user_id AND +o.activity = NEW.activity
    AND o.was_cancelled = 1 AND o.order_no <> NEW.order_no)))
BEGIN
  INSERT INTO strikes (user_id, count, last_at) VALUES (NEW.user_id, 1, NEW.updated_at)
  ON CONFLICT (user_id) DO UPDATE SET last_at = excluded.last_at,
    count = CASE WHEN last_at <= excluded.last_at - 2592000000 THEN 1 ELSE count + 1 END;
END;

-- Switches: `events` follows a variable and is read by the triggers below; load shedding is set by operators (B9).
CREATE TABLE IF NOT EXISTS switches (
  name TEXT PRIMARY KEY,
  is_on INTEGER NOT NULL CHECK (is_on IN (0, 1))
) WITHOUT ROWID;

-- The outbox (E7): each transition of an order inserts an event in the same statement. `step` is the position of the
-- status in an order's life, or of a part of its refund. An order reaches each position at most once, so `step` identifies the
-- events of one order, and sorts them. `subject` is the order's number. In an event about an activity it is the activity's id,
-- `step` numbers these events (`sale_states`), and `reason` is the SKU or the epoch that it is about. The
-- `subject` of a test is empty. `last_status` is the HTTP status of the last attempt, 0 without a response.
CREATE TABLE IF NOT EXISTS events (
  subject TEXT NOT NULL,
  step INTEGER NOT NULL,
  status TEXT NOT NULL,
  reason TEXT NOT NULL,
  pay_by INTEGER NOT NULL,
  paid_at INTEGER NOT NULL,
  refunded INTEGER NOT NULL DEFAULT 0,
  happened_at INTEGER NOT NULL,
  state TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'delivered', 'failed')),
  attempts INTEGER NOT NULL DEFAULT 0,
  next_try_at INTEGER NOT NULL,
  last_try_at INTEGER NOT NULL DEFAULT 0,
  last_status INTEGER NOT NULL DEFAULT 0,
  last_error TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (subject, step)
);

CREATE INDEX IF NOT EXISTS events_waiting ON events (next_try_at) WHERE state = 'waiting';

CREATE INDEX IF NOT EXISTS events_ended ON events (state, happened_at, status) WHERE state <> 'waiting';

CREATE TRIGGER IF NOT EXISTS events_of_new AFTER INSERT ON orders
WHEN EXISTS (SELECT 1 FROM switches WHERE name = 'events' AND is_on = 1)
BEGIN
  INSERT INTO events (subject, step, status, reason, pay_by, paid_at, happened_at, next_try_at)
  VALUES (NEW.order_no, 1, NEW.status, NEW.reason, NEW.pay_by, NEW.paid_at, NEW.updated_at, NEW.updated_at)
  ON CONFLICT DO NOTHING;
END;

CREATE TRIGGER IF NOT EXISTS events_of_moves AFTER UPDATE OF status ON orders
WHEN NEW.status <> OLD.status AND EXISTS (SELECT 1 FROM switches WHERE name = 'events' AND is_on = 1)
BEGIN
  INSERT INTO events (subject, step, status, reason, pay_by, paid_at, refunded, happened_at, next_try_at)
  VALUES (NEW.order_no,
    CASE NEW.status WHEN 'paid' THEN 3 WHEN 'refunding' THEN 1000000 WHEN 'refunded' THEN 1000001 ELSE 2 END,
    NEW.status, NEW.reason, NEW.pay_by, NEW.paid_at, NEW.refunded, NEW.updated_at, NEW.updated_at) ON CONFLICT DO NOTHING;
END;

-- An order that could not be written has failed. A message that cannot be parsed has no order number to report.
CREATE TRIGGER IF NOT EXISTS events_of_failures AFTER INSERT ON dead_letters
WHEN NEW.reason <> 'unreadable' AND EXISTS (SELECT 1 FROM switches WHERE name = 'events' AND is_on = 1)
BEGIN
  INSERT INTO events (subject, step, status, reason, pay_by, paid_at, happened_at, next_try_at)
  VALUES (NEW.order_no, 0, 'failed', NEW.reason, 0, 0, NEW.died_at, NEW.died_at) ON CONFLICT DO NOTHING;
END;

-- What the shop was last told of each sale, where `sku` is empty, and of each of its SKUs (E7): a trigger makes each change
-- an event. `changes` of a sale numbers all events about it, and is kept when it is erased, so that no event of a later sale
-- with its id has the id of an earlier one. `changes` of a SKU numbers those of the SKU.
CREATE TABLE IF NOT EXISTS sale_states (
  activity TEXT NOT NULL,
  sku TEXT NOT NULL,
  state TEXT NOT NULL,
  changes INTEGER NOT NULL,
  changed_at INTEGER NOT NULL,
  PRIMARY KEY (activity, sku)
) WITHOUT ROWID;

CREATE TRIGGER IF NOT EXISTS events_of_new_states AFTER INSERT ON sale_states WHEN NEW.state <> ''
BEGIN
  UPDATE sale_states SET changes = changes + 1 WHERE activity = NEW.activity AND sku = '' AND NEW.sku <> '';
  INSERT INTO events (subject, step, status, reason, pay_by, paid_at, happened_at, next_try_at)
  SELECT activity, changes, NEW.state, NEW.sku, 0, 0, NEW.changed_at, NEW.changed_at FROM sale_states
  WHERE activity = NEW.activity AND sku = '' AND EXISTS (SELECT 1 FROM switches WHERE name = 'events' AND is_on = 1);
END;

CREATE TRIGGER IF NOT EXISTS events_of_states AFTER UPDATE OF state ON sale_states
BEGIN
  UPDATE sale_states SET changes = changes + 1 WHERE activity = NEW.activity AND sku = '' AND NEW.sku <> '';
  INSERT INTO events (subject, step, status, reason, pay_by, paid_at, happened_at, next_try_at)
  SELECT activity, changes, NEW.state, NEW.sku, 0, 0, NEW.changed_at, NEW.changed_at FROM sale_states
  WHERE activity = NEW.activity AND sku = '' AND EXISTS (SELECT 1 FROM switches WHERE name = 'events' AND is_on = 1);
END;

-- What an operator changes. A sweep sees what time and orders change.
CREATE TRIGGER IF NOT EXISTS sale_states_follow AFTER UPDATE OF state ON activities
WHEN NEW.state <> OLD.state AND NEW.state IN ('published', 'paused', 'closed')
BEGIN
  INSERT INTO sale_states (activity, sku, state, changes, changed_at)
  VALUES (NEW.id, '', CASE WHEN NEW.state = 'closed' OR NEW.ends_at <= NEW.updated_at THEN 'ended' ELSE NEW.state END,
    1, NEW.updated_at)
  ON CONFLICT (activity, sku) DO UPDATE
  SET state = excluded.state, changes = sale_states.changes + 1, changed_at = excluded.changed_at
  WHERE sale_states.state <> excluded.state;
END;

-- Endpoints that receive events: paused after a 429, 502 or 504 or without a response; paused after a 410, too, and
-- disabled after the last of several in a row, which `gone` counts.
CREATE TABLE IF NOT EXISTS endpoints (
  url TEXT PRIMARY KEY,
  gone INTEGER NOT NULL DEFAULT 0 CHECK (gone >= 0),
  disabled_at INTEGER NOT NULL DEFAULT 0,
  rest_until INTEGER NOT NULL DEFAULT 0,
  pace INTEGER NOT NULL CHECK (pace > 0)
) WITHOUT ROWID;

-- Payment sessions that the provider must be asked about before their order is released: the latest of each order, the
-- only one that can be paid. `attempt` is its number among the order's sessions.
CREATE TABLE IF NOT EXISTS sessions (
  order_no TEXT PRIMARY KEY REFERENCES orders (order_no),
  provider TEXT NOT NULL,
  session TEXT NOT NULL,
  url TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'closed')),
  attempts INTEGER NOT NULL DEFAULT 0,
  next_ask_at INTEGER NOT NULL,
  last_error TEXT NOT NULL DEFAULT '',
  attempt INTEGER NOT NULL DEFAULT 1,
  opened_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS sessions_open ON sessions (next_ask_at) WHERE state = 'open';

-- The statement that saves an open session starts the payment of its order: the buyer is sent there, and the time to pay
-- is extended once (E6).
CREATE TRIGGER IF NOT EXISTS sessions_start AFTER INSERT ON sessions WHEN NEW.state = 'open'
BEGIN
  UPDATE orders
  SET checkout_url = NEW.url, provider = NEW.provider, checkout_failed = 0, extended = 1, updated_at = NEW.opened_at,
    unsynced_since = NEW.opened_at, pay_by = pay_by + CASE
      WHEN extended = 0 THEN (SELECT a.pay_extension_ms FROM activities a WHERE a.id = orders.activity)
      ELSE 0
    END
  WHERE order_no = NEW.order_no AND status = 'pending_payment' AND pay_by > NEW.opened_at;
END;

CREATE TRIGGER IF NOT EXISTS sessions_start_again AFTER UPDATE OF session ON sessions WHEN NEW.state = 'open'
BEGIN
  UPDATE orders
  SET checkout_url = NEW.url, provider = NEW.provider, checkout_failed = 0, extended = 1, updated_at = NEW.opened_at,
    unsynced_since = NEW.opened_at, pay_by = pay_by + CASE
      WHEN extended = 0 THEN (SELECT a.pay_extension_ms FROM activities a WHERE a.id = orders.activity)
      ELSE 0
    END
  WHERE order_no = NEW.order_no AND status = 'pending_payment' AND pay_by > NEW.opened_at;
END;

-- A payment closes its session. The session of a released order is due to be closed at the provider.
CREATE TRIGGER IF NOT EXISTS sessions_follow AFTER UPDATE OF status ON orders
WHEN NEW.status <> OLD.status AND OLD.status = 'pending_payment'
BEGIN
  UPDATE sessions SET state = CASE WHEN NEW.status = 'paid' THEN 'closed' ELSE state END, next_ask_at = NEW.updated_at
  WHERE order_no = NEW.order_no;
END;

-- Delivery addresses: encrypted, readable by the application only, and erased after their retention time (E1).
-- `sealed` is empty where none was given: there is no form for it, or the payment page asks. `item` (the SKU of the
-- activity's spec) and `language` are those of the first checkout: the payment page shows them.
CREATE TABLE IF NOT EXISTS addresses (
  order_no TEXT PRIMARY KEY REFERENCES orders (order_no),
  sealed TEXT NOT NULL,
  saved_at INTEGER NOT NULL,
  item TEXT NOT NULL,
  language TEXT NOT NULL
) WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS addresses_old ON addresses (saved_at);

-- Payments that are refunded without changing their order: they came a second time, or an operator decided so (I6).
CREATE TABLE IF NOT EXISTS overpayments (
  payment TEXT PRIMARY KEY,
  provider TEXT NOT NULL,
  order_no TEXT NOT NULL,
  amount INTEGER NOT NULL,
  currency TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'requested' CHECK (state IN ('requested', 'sent', 'confirmed')),
  attempts INTEGER NOT NULL DEFAULT 0,
  next_try_at INTEGER NOT NULL,
  last_error TEXT NOT NULL DEFAULT '',
  refund TEXT NOT NULL DEFAULT '',
  failures INTEGER NOT NULL DEFAULT 0,
  failed_refunds TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS overpayments_of_order ON overpayments (order_no);

CREATE INDEX IF NOT EXISTS overpayments_open ON overpayments (next_try_at) WHERE state <> 'confirmed';

-- Parts of payments that were refunded at their provider: the app refunds the rest. `refund` is the provider's id, or names
-- the callback of a refund without one. It is empty where the provider reports the sum of a payment's refunds (Stripe).
CREATE TABLE IF NOT EXISTS partial_refunds (
  payment TEXT NOT NULL,
  refund TEXT NOT NULL,
  order_no TEXT NOT NULL,
  amount INTEGER NOT NULL CHECK (amount > 0),
  PRIMARY KEY (payment, refund)
) WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS partial_refunds_of_order ON partial_refunds (order_no);

-- Parts of payments that operators give back while the order stays paid (E4): durable work like `refunds`. `id` names the
-- operator's request, so that a repeated one is the same part. What the parts leave is refunded with the order.
CREATE TABLE IF NOT EXISTS refund_parts (
  id TEXT PRIMARY KEY,
  order_no TEXT NOT NULL,
  payment TEXT NOT NULL,
  amount INTEGER NOT NULL CHECK (amount > 0),
  currency TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'requested' CHECK (state IN ('requested', 'sent', 'confirmed')),
  attempts INTEGER NOT NULL DEFAULT 0,
  requested_at INTEGER NOT NULL,
  next_try_at INTEGER NOT NULL,
  last_error TEXT NOT NULL DEFAULT '',
  refund TEXT NOT NULL DEFAULT '',
  failures INTEGER NOT NULL DEFAULT 0,
  failed_refunds TEXT NOT NULL DEFAULT ''
);

CREATE INDEX IF NOT EXISTS refund_parts_of_order ON refund_parts (order_no);

CREATE INDEX IF NOT EXISTS refund_parts_of_payment ON refund_parts (payment);

CREATE INDEX IF NOT EXISTS refund_parts_open ON refund_parts (next_try_at) WHERE state <> 'confirmed';

-- All parts of an order, those made at the provider included, leave something of its payment: else the part is left out. Of
-- Stripe's refunds the ledger has the sum (`refund` is empty), in which the parts that it accepted are.
CREATE TRIGGER IF NOT EXISTS refund_parts_fit BEFORE INSERT ON refund_parts
BEGIN
  SELECT RAISE(IGNORE) WHERE EXISTS (SELECT 1 FROM refund_parts WHERE id = NEW.id) OR NOT EXISTS (
    SELECT 1 FROM orders WHERE order_no = NEW.order_no AND status = 'paid' AND NEW.amount + refunded
        + (SELECT CASE WHEN told > accepted THEN told - accepted ELSE 0 END FROM (SELECT
          (SELECT COALESCE(SUM(t.amount), 0) FROM partial_refunds t WHERE t.payment = NEW.payment AND t.refund = '') AS told,
          (SELECT COALESCE(SUM(c.amount), 0) FROM refund_parts c WHERE c.payment = NEW.payment AND c.state <> 'requested')
            AS accepted) AS sums)
        + (SELECT COALESCE(SUM(p.amount), 0) FROM partial_refunds p WHERE p.payment = NEW.payment AND p.refund <> ''
          AND NOT EXISTS (SELECT 1 FROM refund_parts q WHERE q.payment = p.payment AND q.refund = p.refund)) < amount);
  UPDATE orders SET refunded = refunded + NEW.amount, updated_at = NEW.requested_at, unsynced_since = NEW.requested_at
  WHERE order_no = NEW.order_no;
END;

CREATE TRIGGER IF NOT EXISTS events_of_parts AFTER INSERT ON refund_parts
WHEN EXISTS (SELECT 1 FROM switches WHERE name = 'events' AND is_on = 1)
BEGIN
  INSERT INTO events (subject, step, status, reason, pay_by, paid_at, refunded, happened_at, next_try_at)
  SELECT o.order_no, 3 + (SELECT COUNT(*) FROM refund_parts p WHERE p.order_no = o.order_no), 'partially_refunded',
    o.reason, o.pay_by, o.paid_at, o.refunded, NEW.requested_at, NEW.requested_at
  FROM orders o WHERE o.order_no = NEW.order_no ON CONFLICT DO NOTHING;
END;

-- G5: an order message carries the epoch of the gate that accepted it. A message of an older epoch is not written. `losses`
-- counts the epochs that began because Redis had lost orders (G16); the last one began at `lost_at`.
CREATE TABLE IF NOT EXISTS epochs (
  activity TEXT PRIMARY KEY,
  epoch INTEGER NOT NULL CHECK (epoch > 0),
  losses INTEGER NOT NULL DEFAULT 0,
  lost_at INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

-- An epoch only rises.
CREATE TRIGGER IF NOT EXISTS epochs_rise BEFORE UPDATE ON epochs WHEN NEW.epoch <= OLD.epoch
BEGIN
  SELECT RAISE(ABORT, 'illegal move');
END;

CREATE TRIGGER IF NOT EXISTS events_of_losses AFTER UPDATE OF losses ON epochs
WHEN NEW.losses > OLD.losses AND EXISTS (SELECT 1 FROM switches WHERE name = 'events' AND is_on = 1)
BEGIN
  INSERT INTO sale_states (activity, sku, state, changes, changed_at) VALUES (NEW.activity, '', '', 1, NEW.lost_at)
  ON CONFLICT (activity, sku) DO UPDATE SET changes = sale_states.changes + 1;
  INSERT INTO events (subject, step, status, reason, pay_by, paid_at, happened_at, next_try_at)
  SELECT activity, changes, 'restored', NEW.epoch, 0, 0, NEW.lost_at, NEW.lost_at FROM sale_states
  WHERE activity = NEW.activity AND sku = '';
END;

-- Rebuilds that have begun and not ended (G5). `epoch` is the activity's when the rebuild began. `pass` and `position` say
-- how far the backfill is: in this table, because a ledger that is restored from a backup must repeat it.
CREATE TABLE IF NOT EXISTS rebuilds (
  activity TEXT PRIMARY KEY,
  version INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  pass INTEGER NOT NULL DEFAULT 0,
  position INTEGER NOT NULL DEFAULT 0,
  live_orders_differ INTEGER NOT NULL DEFAULT 0 CHECK (live_orders_differ IN (0, 1)),
  due_at INTEGER NOT NULL,
  lost_at INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

-- G3: the token grows each time the lease is acquired; a statement under a lease checks it.
CREATE TABLE IF NOT EXISTS leases (
  name TEXT PRIMARY KEY,
  owner TEXT NOT NULL,
  token INTEGER NOT NULL,
  until INTEGER NOT NULL,
  resume_after TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;

-- The statement that sets an outcome does what it says. An operator refunds no payment that paid its order, or may have:
-- the order's payment id was lost with a ledger (I6).
CREATE TRIGGER IF NOT EXISTS callbacks_take_effect BEFORE UPDATE OF outcome ON callbacks WHEN NEW.outcome <> OLD.outcome
BEGIN
  SELECT RAISE(IGNORE) WHERE NEW.outcome = 'refunded_by_operator' AND EXISTS (
    SELECT 1 FROM orders WHERE order_no = NEW.order_no AND payment IN (NEW.payment, 'lost'));
  INSERT INTO overpayments (payment, provider, order_no, amount, currency, next_try_at)
  SELECT NEW.payment, NEW.provider, NEW.order_no, NEW.amount, NEW.currency, NEW.received_at
  WHERE NEW.outcome IN ('overpayment_refunded', 'refunded_by_operator') ON CONFLICT DO NOTHING;
  UPDATE orders
  SET status = 'paid', payment = NEW.payment, paid_at = NEW.decided_at, updated_at = NEW.decided_at,
    unsynced_since = NEW.decided_at, provider = CASE WHEN provider = '' THEN NEW.provider ELSE provider END
  WHERE NEW.outcome = 'paid' AND order_no = NEW.order_no AND status = 'pending_payment';
  UPDATE orders SET payment = NEW.payment, provider = CASE WHEN provider = '' THEN NEW.provider ELSE provider END
  WHERE NEW.outcome = 'payment_named' AND order_no = NEW.order_no AND payment = 'lost';
END;

-- A payment that is an overpayment cannot pay an order, in any statement: the row stays unchanged.
CREATE TRIGGER IF NOT EXISTS orders_payment BEFORE UPDATE OF payment ON orders WHEN NEW.payment <> OLD.payment
BEGIN
  SELECT RAISE(IGNORE) WHERE EXISTS (SELECT 1 FROM overpayments WHERE payment = NEW.payment);
END;

-- Which payment may pay which order: the outcome of each callback, as far as it follows from the ledger (E2, E5, I6). Empty
-- for one that `dispatch` in crates/payments/src/callbacks.rs decides: a payment of a released order, which needs free
-- units, and what is no payment. The provider that has an overpayment need not be that of its order.
CREATE VIEW IF NOT EXISTS callback_decisions AS
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
-- payment.
CREATE TRIGGER IF NOT EXISTS callbacks_decide AFTER INSERT ON callbacks WHEN NEW.outcome = ''
BEGIN
  UPDATE callbacks SET outcome = (SELECT outcome FROM callback_decisions WHERE id = NEW.id) WHERE id = NEW.id;
END;

CREATE TRIGGER IF NOT EXISTS callbacks_decide_again AFTER UPDATE OF decided_at ON callbacks WHEN NEW.outcome = ''
BEGIN
  UPDATE callbacks SET outcome = (SELECT outcome FROM callback_decisions WHERE id = NEW.id) WHERE id = NEW.id;
END;

-- What operators changed (G2): who, what, when, before and after. Rows are only added.
CREATE TABLE IF NOT EXISTS operator_changes (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  changed_at INTEGER NOT NULL,
  operator TEXT NOT NULL,
  action TEXT NOT NULL,
  subject TEXT NOT NULL,
  before TEXT NOT NULL,
  after TEXT NOT NULL,
  request_id TEXT NOT NULL
);

CREATE INDEX IF NOT EXISTS operator_changes_of_subject ON operator_changes (subject);

CREATE TRIGGER IF NOT EXISTS operator_changes_stay BEFORE UPDATE ON operator_changes
BEGIN
  SELECT RAISE(ABORT, 'illegal move');
END;

INSERT INTO schema_versions (version) VALUES (1) ON CONFLICT DO NOTHING;
