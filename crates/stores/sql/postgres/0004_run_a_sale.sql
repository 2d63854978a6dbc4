-- Payments that their payers dispute, as the provider says (G21). `opened_at` and `changed_at` are the provider's times of
-- what it reported. `order_no` is empty while the ledger has no such payment: it may be that of another app.
CREATE TABLE IF NOT EXISTS disputes (
  dispute TEXT PRIMARY KEY,
  provider TEXT NOT NULL,
  order_no TEXT NOT NULL,
  payment TEXT NOT NULL,
  amount BIGINT NOT NULL,
  currency TEXT NOT NULL,
  reason TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('open', 'won', 'lost', 'closed')),
  opened_at BIGINT NOT NULL,
  changed_at BIGINT NOT NULL
);

CREATE INDEX IF NOT EXISTS disputes_of_order ON disputes (order_no);

CREATE INDEX IF NOT EXISTS disputes_open ON disputes (opened_at) WHERE status = 'open';

-- Sales that only rehearse (G21): their spec says so when they are created.
CREATE TABLE IF NOT EXISTS rehearsals (activity TEXT PRIMARY KEY REFERENCES activities (id) ON DELETE CASCADE);

CREATE OR REPLACE FUNCTION rehearsals_begin() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO rehearsals (activity) VALUES (NEW.id);
  RETURN NEW;
END $$;

-- No part of the text is parsed, since a spec of an earlier version may not be readable; a quote in a value is escaped.
CREATE OR REPLACE TRIGGER rehearsals_begin AFTER INSERT ON activities FOR EACH ROW
  WHEN (NEW.spec LIKE '%"rehearsal":true%') EXECUTE FUNCTION rehearsals_begin();

-- What books need of a deleted rehearsal: its payments at a real provider, each given back as `refund`.
CREATE TABLE IF NOT EXISTS rehearsal_payments (
  payment TEXT PRIMARY KEY,
  provider TEXT NOT NULL,
  order_no TEXT NOT NULL,
  amount BIGINT NOT NULL,
  currency TEXT NOT NULL,
  refund TEXT NOT NULL
);

INSERT INTO schema_versions (version) VALUES (4) ON CONFLICT DO NOTHING;
