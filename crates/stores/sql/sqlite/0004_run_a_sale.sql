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

INSERT INTO schema_versions (version) VALUES (4) ON CONFLICT DO NOTHING;
