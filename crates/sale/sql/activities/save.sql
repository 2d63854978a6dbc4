UPDATE activities
SET
  spec = ?2,
  totals = ?3,
  starts_at = ?4,
  ends_at = ?5,
  pay_timeout_ms = ?6,
  pay_extension_ms = ?7,
  per_user = ?8,
  refund_restocks = ?9,
  state = ?10,
  nonce = ?11,
  version = ?12,
  updated_at = ?13,
  announcement = ?14
WHERE id = ?1 AND version = ?15
RETURNING version
