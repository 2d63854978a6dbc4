-- Who waits in a line for a unit that comes back (H1), by the number that their order gets. `epoch` and `sequence` are the
-- place: which gate let them in, and as which. `reason` says why an entry has ended.
CREATE TABLE IF NOT EXISTS line_entries (
  order_no TEXT COLLATE "C" PRIMARY KEY,
  activity TEXT NOT NULL,
  sku TEXT NOT NULL,
  user_id TEXT NOT NULL,
  amount BIGINT NOT NULL,
  currency TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  epoch BIGINT NOT NULL,
  sequence BIGINT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('waiting', 'offered', 'ended')),
  reason TEXT NOT NULL,
  updated_at BIGINT NOT NULL
);

-- A user waits for a SKU once.
CREATE UNIQUE INDEX IF NOT EXISTS line_entries_waiting ON line_entries (activity, sku, user_id) WHERE state = 'waiting';

CREATE INDEX IF NOT EXISTS line_entries_in_order ON line_entries (activity, epoch, sequence);

CREATE INDEX IF NOT EXISTS line_entries_offered ON line_entries (activity) WHERE state = 'offered';

CREATE INDEX IF NOT EXISTS line_entries_of_user ON line_entries (user_id, created_at);

CREATE OR REPLACE FUNCTION orders_offered() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE line_entries SET state = 'offered', reason = '', updated_at = NEW.updated_at WHERE order_no = NEW.order_no;
  UPDATE orders SET reason = '' WHERE order_no = NEW.order_no;
  RETURN NULL;
END $$;

-- The writer inserts the order of an offered unit with the reason `offered`, which its event tells the shop.
CREATE OR REPLACE TRIGGER orders_offered AFTER INSERT ON orders FOR EACH ROW
  WHEN (NEW.reason = 'offered') EXECUTE FUNCTION orders_offered();

CREATE OR REPLACE FUNCTION line_entries_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM line_entries WHERE activity = OLD.id;
  RETURN OLD;
END $$;

CREATE OR REPLACE TRIGGER line_entries_end BEFORE DELETE ON activities FOR EACH ROW EXECUTE FUNCTION line_entries_end();

-- As before, but for an order of a unit that was offered: who waited long may have bought elsewhere (B8).
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
  IF EXISTS (SELECT 1 FROM line_entries e WHERE e.order_no = NEW.order_no) THEN
    RETURN NULL;
  END IF;
  INSERT INTO strikes (user_id, count, last_at) VALUES (NEW.user_id, 1, NEW.updated_at)
  ON CONFLICT (user_id) DO UPDATE SET last_at = excluded.last_at,
    count = CASE WHEN strikes.last_at <= excluded.last_at - 2592000000 THEN 1 ELSE strikes.count + 1 END;
  RETURN NULL;
END $$;

INSERT INTO schema_versions (version) VALUES (5) ON CONFLICT DO NOTHING;
