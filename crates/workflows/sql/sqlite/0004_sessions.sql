-- A payment session may end before its order does: the next attempt to pay opens another session.
-- Statements are separated by blank lines: the drivers run one at a time.

-- Number of the session among its order's. The row holds the latest session, the only one that can be paid.
ALTER TABLE sessions ADD COLUMN attempt INTEGER NOT NULL DEFAULT 1;

-- The session that a callback is about: the end of an earlier session does not end the latest one.
ALTER TABLE callbacks ADD COLUMN session TEXT NOT NULL DEFAULT '';

-- Partial index: few callbacks are held for an operator, and many are processed.
CREATE INDEX IF NOT EXISTS callbacks_held ON callbacks (received_at)
WHERE outcome IN ('unknown_order', 'wrong_amount', 'paid_twice', 'unknown_payment');

INSERT INTO schema_versions (version) VALUES (4) ON CONFLICT DO NOTHING;
