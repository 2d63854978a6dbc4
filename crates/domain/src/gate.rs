//! The gate (A4): start keys, the gate document, and the jitter of the first request.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    activity::{Announcement, Phase},
    ids::{ActivityId, SkuId},
    secret,
    signer::Signer,
    time::Millis,
};

/// The start key of an activity: a keyed hash of the activity's random `nonce`, so it cannot be known before the gate
/// shows it.
///
/// Rotating the nonce changes the key. `None` if there is no secret.
#[must_use]
pub fn start_key(ticket_secret: &str, activity: &ActivityId, nonce: &str) -> Option<String> {
    let newest = secret::active(ticket_secret).next()?;
    let signature = Signer::new(newest, "stampede start key")?.sign(&format!("{activity}.{nonce}"));
    Some(signature[..22].to_owned())
}

/// `gate.json`. It is the same for every client, so that a cache in front of the app can serve it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct GateDocument {
    /// The activity's phase.
    pub phase: Phase,
    /// The server's clock, which pages use for their countdown.
    pub server_time: Millis,
    /// When reservations open.
    pub starts_at: Millis,
    /// When reservations end.
    pub ends_at: Millis,
    /// The activity's version, which every change by an operator raises: a page that shows another one reads the
    /// activity again (F5).
    #[schemars(range(min = 1))]
    pub version: i64,
    /// A word from the shop, by language: plain text. Absent if there is none.
    #[serde(skip_serializing_if = "Announcement::is_empty")]
    pub announcement: Announcement,
    /// Maximum random delay of a page's gate poll at the start, in milliseconds (A5).
    #[schemars(range(min = 0))]
    pub jitter_ms: i64,
    /// SKUs that have no units left now.
    pub sold_out: Vec<SkuId>,
    /// The start key that a reservation must carry; present only while the activity is open and not shedding.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1))]
    pub start_key: Option<String>,
}

/// Request rate to which the jitter spreads the first reservations.
const TARGET_REQUESTS_PER_SECOND: i64 = 5_000;

/// The maximum delay before the first reservation, in milliseconds (A5). `visitors` is the number of users who asked
/// for a challenge or a ticket, `units` the number of units on sale (negative: unlimited).
///
/// It spreads the visitors to 5,000 requests per second, over at most one second. If there are more than ten visitors
/// for each unit, the bound is three seconds: late pages then learn from the gate that everything is sold out, and send
/// no request.
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
        let key = |secret, id, nonce| start_key(secret, &ActivityId::parse(id).expect("id"), nonce).expect("a key");
        let first = key("secret-one", "a", "n");
        assert_eq!(first.len(), 22);
        for other in [key("secret-two", "a", "n"), key("secret-one", "b", "n"), key("secret-one", "a", "m")] {
            assert_ne!(other, first);
        }
    }

    #[test]
    fn the_jitter_grows_with_visitors_and_when_oversubscribed() {
        assert_eq!([jitter_ms(0, 10), jitter_ms(2_500, 2_500), jitter_ms(1_000_000, 1_000_000)], [100, 500, 1_000]);
        assert_eq!(
            [jitter_ms(10_000, 100), jitter_ms(1_000_000, 100), jitter_ms(1_000_000, -1)],
            [2_000, 3_000, 1_000]
        );
    }
}
