-- A payment whose id went with a lost ledger is called 'lost' until its provider names it again.
-- Statements are separated by blank lines: the drivers take one at a time.

-- Its refund was kept from the provider until then, and is due now (E4).
CREATE TRIGGER IF NOT EXISTS refunds_named AFTER UPDATE OF payment ON orders
WHEN OLD.payment = 'lost' AND NEW.payment <> OLD.payment
BEGIN
  UPDATE refunds SET payment = NEW.payment, attempts = 0, next_try_at = 0, last_error = ''
  WHERE order_no = NEW.order_no;
END;

INSERT INTO schema_versions (version) VALUES (5) ON CONFLICT DO NOTHING;
