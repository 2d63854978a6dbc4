-- A payment is refunded once, and pays no order after that. A refund that failed after the provider had confirmed it is
-- held for an operator.
-- Statements are separated by blank lines: the drivers run one at a time.

DROP INDEX IF EXISTS callbacks_held;

-- Partial index: few callbacks are held for an operator, and many are processed.
CREATE INDEX IF NOT EXISTS callbacks_held ON callbacks (received_at)
WHERE outcome IN ('unknown_order', 'wrong_amount', 'paid_twice', 'unknown_payment', 'refund_bounced');

-- When an operator refunds the payment of a held callback, the statement that sets its outcome also inserts the refund,
-- unless the payment paid its order (I6).
CREATE TRIGGER IF NOT EXISTS callbacks_give_back BEFORE UPDATE OF outcome ON callbacks
WHEN NEW.outcome = 'refunded_by_operator' AND OLD.outcome <> NEW.outcome
BEGIN
  SELECT RAISE(IGNORE) WHERE EXISTS (
    SELECT 1 FROM orders WHERE order_no = NEW.order_no AND payment = NEW.payment);
  INSERT INTO overpayments (payment, order_no, amount, currency, next_try_at)
  VALUES (NEW.payment, NEW.order_no, NEW.amount, NEW.currency, NEW.received_at) ON CONFLICT DO NOTHING;
END;

-- A payment that is an overpayment cannot pay an order, in any statement: the row stays unchanged.
CREATE TRIGGER IF NOT EXISTS orders_payment BEFORE UPDATE OF payment ON orders WHEN NEW.payment <> OLD.payment
BEGIN
  SELECT RAISE(IGNORE) WHERE EXISTS (SELECT 1 FROM overpayments WHERE payment = NEW.payment);
END;

INSERT INTO schema_versions (version) VALUES (6) ON CONFLICT DO NOTHING;
