INSERT INTO activities (
  id, spec, totals, starts_at, ends_at, pay_timeout_ms, pay_extension_ms,
  per_user, refund_restocks, state, nonce, version, updated_at
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
ON CONFLICT (id) DO NOTHING
RETURNING version
