-- Money that goes back: once, and then it pays nothing; and the refund that a provider confirmed and could not make.
-- Statements are separated by blank lines: the drivers take one at a time.

DROP INDEX IF EXISTS callbacks_held;

-- Callbacks that wait for an operator are few among those that were dealt with.
CREATE INDEX IF NOT EXISTS callbacks_held ON callbacks (received_at)
WHERE outcome IN ('unknown_order', 'wrong_amount', 'paid_twice', 'unknown_payment', 'refund_bounced');

-- An operator gives the money of a held callback back by the statement that lets it go, unless it paid its order (I6).
-- The order is locked: whoever pays it at this moment is waited for, or waits and finds that the money went back.
CREATE OR REPLACE FUNCTION callbacks_give_back() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM orders WHERE order_no = NEW.order_no FOR UPDATE;
  IF EXISTS (SELECT 1 FROM orders WHERE order_no = NEW.order_no AND payment = NEW.payment) THEN
    RETURN NULL;
  END IF;
  INSERT INTO overpayments (payment, order_no, amount, currency, next_try_at)
  VALUES (NEW.payment, NEW.order_no, NEW.amount, NEW.currency, NEW.received_at) ON CONFLICT DO NOTHING;
  RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER callbacks_give_back BEFORE UPDATE OF outcome ON callbacks FOR EACH ROW
  WHEN (NEW.outcome = 'refunded_by_operator' AND OLD.outcome <> NEW.outcome) EXECUTE FUNCTION callbacks_give_back();

-- A payment that was given back pays no order, whoever says so: the row stays as it was.
CREATE OR REPLACE FUNCTION orders_payment() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM overpayments WHERE payment = NEW.payment) THEN
    RETURN NULL;
  END IF;
  RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER orders_payment BEFORE UPDATE OF payment ON orders FOR EACH ROW
  WHEN (NEW.payment <> OLD.payment) EXECUTE FUNCTION orders_payment();

INSERT INTO schema_versions (version) VALUES (8) ON CONFLICT DO NOTHING;
