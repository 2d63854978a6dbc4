INSERT INTO callbacks (id, type, order_no, payment, amount, currency, received_at, refund, session, provider, next_try_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
ON CONFLICT (id) DO UPDATE SET outcome = callbacks.outcome
RETURNING {columns}
