-- Who waits in a line for a unit that comes back (H1), by the number that their order gets. `epoch` and `sequence` are the
-- place: which gate let them in, and as which. `reason` says why an entry has ended.
CREATE TABLE IF NOT EXISTS line_entries (
  order_no TEXT PRIMARY KEY,
  activity TEXT NOT NULL,
  sku TEXT NOT NULL,
  user_id TEXT NOT NULL,
  amount INTEGER NOT NULL,
  currency TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  sequence INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('waiting', 'offered', 'ended')),
  reason TEXT NOT NULL,
  updated_at INTEGER NOT NULL
) WITHOUT ROWID;

-- A user waits for a SKU once.
CREATE UNIQUE INDEX IF NOT EXISTS line_entries_waiting ON line_entries (activity, sku, user_id) WHERE state = 'waiting';

CREATE INDEX IF NOT EXISTS line_entries_in_order ON line_entries (activity, epoch, sequence);

CREATE INDEX IF NOT EXISTS line_entries_offered ON line_entries (activity) WHERE state = 'offered';

CREATE INDEX IF NOT EXISTS line_entries_of_user ON line_entries (user_id, created_at);

-- The writer inserts the order of an offered unit with the reason `offered`, which its event tells the shop.
CREATE TRIGGER IF NOT EXISTS orders_offered AFTER INSERT ON orders WHEN NEW.reason = 'offered'
BEGIN
  UPDATE line_entries SET state = 'offered', reason = '', updated_at = NEW.updated_at WHERE order_no = NEW.order_no;
  UPDATE orders SET reason = '' WHERE order_no = NEW.order_no;
END;

CREATE TRIGGER IF NOT EXISTS line_entries_end BEFORE DELETE ON activities
BEGIN
  DELETE FROM line_entries WHERE activity = OLD.id;
END;

DROP TRIGGER IF EXISTS strikes_count;

-- As before, but for an order of a unit that was offered: who waited long may have bought elsewhere (B8).
CREATE TRIGGER IF NOT EXISTS strikes_count AFTER UPDATE OF status ON orders
WHEN OLD.status = 'pending_payment' AND NEW.checkout_failed = 0 AND NEW.reason <> 'cancelled_by_operator'
  AND (NEW.status = 'expired' OR NEW.status = 'cancelled' AND (
  NEW.updated_at > NEW.free_cancel_until
  OR EXISTS (SELECT 1 FROM orders o WHERE o.user_id = NEW.user_id AND +o.activity = NEW.activity
    AND o.was_cancelled = 1 AND o.order_no <> NEW.order_no)))
  AND NOT EXISTS (SELECT 1 FROM line_entries e WHERE e.order_no = NEW.order_no)
BEGIN
  INSERT INTO strikes (user_id, count, last_at) VALUES (NEW.user_id, 1, NEW.updated_at)
  ON CONFLICT (user_id) DO UPDATE SET last_at = excluded.last_at,
    count = CASE WHEN last_at <= excluded.last_at - 2592000000 THEN 1 ELSE count + 1 END;
END;

INSERT INTO schema_versions (version) VALUES (5) ON CONFLICT DO NOTHING;
