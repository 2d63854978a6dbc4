-- Payments that their payers dispute, as the provider says (G21). `opened_at` and `changed_at` are the provider's times of
-- what it reported. `order_no` is empty while the ledger has no such payment: it may be that of another app.
CREATE TABLE IF NOT EXISTS disputes (
  dispute TEXT PRIMARY KEY,
  provider TEXT NOT NULL,
  order_no TEXT NOT NULL,
  payment TEXT NOT NULL,
  amount INTEGER NOT NULL,
  currency TEXT NOT NULL,
  reason TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('open', 'won', 'lost', 'closed')),
  opened_at INTEGER NOT NULL,
  changed_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS disputes_of_order ON disputes (order_no);

CREATE INDEX IF NOT EXISTS disputes_open ON disputes (opened_at) WHERE status = 'open';

-- Sales that only rehearse (G21): their spec says so when they are created.
CREATE TABLE IF NOT EXISTS rehearsals (activity TEXT PRIMARY KEY) WITHOUT ROWID;

-- No part of the text is parsed, since a spec of an earlier version may not be readable; a quote in a value is escaped.
CREATE TRIGGER IF NOT EXISTS rehearsals_begin AFTER INSERT ON activities WHEN NEW.spec LIKE '%"rehearsal":true%'
BEGIN
  INSERT INTO rehearsals (activity) VALUES (NEW.id);
END;

CREATE TRIGGER IF NOT EXISTS rehearsals_end BEFORE DELETE ON activities
BEGIN
  DELETE FROM rehearsals WHERE activity = OLD.id;
END;

-- What books need of a deleted rehearsal: its payments at a real provider, each given back as `refund`.
CREATE TABLE IF NOT EXISTS rehearsal_payments (
  payment TEXT PRIMARY KEY,
  provider TEXT NOT NULL,
  order_no TEXT NOT NULL,
  amount INTEGER NOT NULL,
  currency TEXT NOT NULL,
  refund TEXT NOT NULL
) WITHOUT ROWID;

INSERT INTO schema_versions (version) VALUES (4) ON CONFLICT DO NOTHING;
