-- Money that goes back: once, and then it pays nothing; and the refund that a provider confirmed and could not make.
-- Statements are separated by blank lines: the drivers take one at a time.

DROP INDEX IF EXISTS callbacks_held;

-- Callbacks that wait for an operator are few among those that were dealt with.
CREATE INDEX IF NOT EXISTS callbacks_held ON callbacks (received_at)
WHERE outcome IN ('unknown_order', 'wrong_amount', 'paid_twice', 'unknown_payment', 'refund_bounced');

-- An operator gives the money of a held callback back by the statement that lets it go, unless it paid its order (I6).
CREATE TRIGGER IF NOT EXISTS callbacks_give_back BEFORE UPDATE OF outcome ON callbacks
WHEN NEW.outcome = 'refunded_by_operator' AND OLD.outcome <> NEW.outcome
BEGIN
  SELECT RAISE(IGNORE) WHERE EXISTS (
    SELECT 1 FROM orders WHERE order_no = NEW.order_no AND payment = NEW.payment);
  INSERT INTO overpayments (payment, order_no, amount, currency, next_try_at)
  VALUES (NEW.payment, NEW.order_no, NEW.amount, NEW.currency, NEW.received_at) ON CONFLICT DO NOTHING;
END;

-- A payment that was given back pays no order, whoever says so: the row stays as it was.
CREATE TRIGGER IF NOT EXISTS orders_payment BEFORE UPDATE OF payment ON orders WHEN NEW.payment <> OLD.payment
BEGIN
  SELECT RAISE(IGNORE) WHERE EXISTS (SELECT 1 FROM overpayments WHERE payment = NEW.payment);
END;

INSERT INTO schema_versions (version) VALUES (6) ON CONFLICT DO NOTHING;
