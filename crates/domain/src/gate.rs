//! The gate (A4): the start key that nobody can know before the start, and the document that carries it.

use serde::Serialize;

use crate::{
    activity::Phase,
    ids::{ActivityId, SkuId},
    signer::Signer,
    time::Millis,
};

/// The start key of a sale: a keyed hash over a random `nonce`, which changes when an operator rotates it.
#[must_use]
pub fn start_key(ticket_secret: &str, activity: &ActivityId, nonce: &str) -> Option<String> {
    let newest = ticket_secret.split_ascii_whitespace().next()?;
    let signature = Signer::new(newest, "stampede start key")?.sign(&format!("{activity}.{nonce}"));
    Some(signature[..22].to_owned())
}

/// `gate.json`: the same for everybody, so that a cache in front can answer the crowd.
#[derive(Debug, Clone, Serialize)]
pub struct GateDocument {
    /// What a visitor sees.
    pub phase: Phase,
    /// The server's clock.
    pub server_time: Millis,
    /// When it opens.
    pub starts_at: Millis,
    /// When it ends.
    pub ends_at: Millis,
    /// Spread of the first request, in milliseconds (A5).
    pub jitter_ms: i64,
    /// SKUs that need no try now.
    pub sold_out: Vec<SkuId>,
    /// What a reservation must carry; only while open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_key: Option<String>,
}

/// Requests a second that the first moment is spread to.
const TARGET_REQUESTS_PER_SECOND: i64 = 5_000;

/// How far the first requests are spread (A5), by who holds a ticket and what is on sale: enough for a comfortable
/// rate, and longer where nearly all must lose: who comes late then learns from the gate that nothing is left.
#[must_use]
pub fn jitter_ms(visitors: i64, units: i64) -> i64 {
    let oversubscribed = units >= 0 && visitors / 10 > units;
    (visitors.saturating_mul(1_000) / TARGET_REQUESTS_PER_SECOND).clamp(100, if oversubscribed { 3_000 } else { 1_000 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_key_depends_on_secret_activity_and_nonce() {
        let id = |text| ActivityId::parse(text).expect("id");
        let key = start_key("secret-one", &id("a"), "n").expect("a key");
        assert_eq!(key.len(), 22);
        assert_ne!(start_key("secret-two", &id("a"), "n").as_ref(), Some(&key));
        assert_ne!(start_key("secret-one", &id("b"), "n").as_ref(), Some(&key));
        assert_ne!(start_key("secret-one", &id("a"), "m").as_ref(), Some(&key));
    }

    #[test]
    fn the_jitter_grows_with_visitors_and_when_oversubscribed() {
        assert_eq!([jitter_ms(0, 10), jitter_ms(2_500, 2_500), jitter_ms(1_000_000, 1_000_000)], [100, 500, 1_000]);
        assert_eq!(
            [jitter_ms(10_000, 100), jitter_ms(1_000_000, 100), jitter_ms(1_000_000, -1)],
            [2_000, 3_000, 1_000]
        );
    }

    #[test]
    fn a_gate_document_omits_an_absent_start_key() {
        let gate = GateDocument {
            phase: Phase::Scheduled,
            server_time: Millis(0),
            starts_at: Millis(1),
            ends_at: Millis(2),
            jitter_ms: 100,
            sold_out: vec![],
            start_key: None,
        };
        assert!(!serde_json::to_string(&gate).expect("json").contains("start_key"));
    }
}
