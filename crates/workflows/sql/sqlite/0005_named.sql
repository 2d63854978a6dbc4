-- A payment whose id was lost with the ledger has the id 'lost' until its provider reports the id again.
-- Statements are separated by blank lines: the drivers run one at a time.

-- Its refund was not sent to the provider until then, and is due now (E4).
CREATE TRIGGER IF NOT EXISTS refunds_named AFTER UPDATE OF payment ON orders
WHEN OLD.payment = 'lost' AND NEW.payment <> OLD.payment
BEGIN
  UPDATE refunds SET payment = NEW.payment, attempts = 0, next_try_at = 0, last_error = ''
  WHERE order_no = NEW.order_no;
END;

INSERT INTO schema_versions (version) VALUES (5) ON CONFLICT DO NOTHING;
