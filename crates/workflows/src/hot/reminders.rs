//! Counts the visitors who want to be reminded of an activity's start: the demand that operators can expect (G2).
//!
//! The count is an estimate that decides nothing: a robot can raise it.

use domain::ids::ActivityId;

use crate::{
    keys::Keys,
    ports::{Redis, StoreError},
    script::REMIND,
};

/// Counts a visitor, who is known by address and browser, once. Redis keeps a HyperLogLog of at most 12 KiB, from which
/// neither can be read.
///
/// # Errors
/// `RedisUnavailable` or `RedisRefused`; the visitor may be counted.
pub async fn count<R: Redis>(
    redis: &R,
    activity: &ActivityId,
    address: &str,
    browser: &[u8],
) -> Result<(), StoreError> {
    let keys = Keys::of(activity);
    let script_keys = vec![keys.named("gate"), keys.named("reminders")];
    REMIND.run(redis, script_keys, vec![[address.as_bytes(), b" ", browser].concat()]).await.map(|_| ())
}
