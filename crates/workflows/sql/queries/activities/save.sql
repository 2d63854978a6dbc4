INSERT INTO activities (
  id, spec, totals, starts_at, ends_at, pay_timeout_ms, pay_extension_ms,
  per_user, refund_restocks, state, nonce, version, updated_at
)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13
WHERE CAST(?14 AS BIGINT) = 0 OR EXISTS (SELECT 1 FROM activities WHERE id = ?1)
ON CONFLICT (id) DO UPDATE SET
  spec = excluded.spec,
  totals = excluded.totals,
  starts_at = excluded.starts_at,
  ends_at = excluded.ends_at,
  pay_timeout_ms = excluded.pay_timeout_ms,
  pay_extension_ms = excluded.pay_extension_ms,
  per_user = excluded.per_user,
  refund_restocks = excluded.refund_restocks,
  state = excluded.state,
  nonce = excluded.nonce,
  version = excluded.version,
  updated_at = excluded.updated_at
WHERE activities.version = ?14
RETURNING version
