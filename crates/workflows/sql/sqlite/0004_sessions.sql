-- A payment session may end before its order does: the next attempt is another session.
-- Statements are separated by blank lines: the drivers take one at a time.

-- Which of an order's sessions this is: the last one, and the only one that can be paid.
ALTER TABLE sessions ADD COLUMN attempt INTEGER NOT NULL DEFAULT 1;

-- Which session a callback is about: news of an earlier one says nothing of the last.
ALTER TABLE callbacks ADD COLUMN session TEXT NOT NULL DEFAULT '';

-- Callbacks that wait for an operator are few among those that were dealt with.
CREATE INDEX IF NOT EXISTS callbacks_held ON callbacks (received_at)
WHERE outcome IN ('unknown_order', 'wrong_amount', 'paid_twice', 'unknown_payment');

INSERT INTO schema_versions (version) VALUES (4) ON CONFLICT DO NOTHING;
