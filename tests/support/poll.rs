//! Waiting for a state, with a deadline and with the last state in the failure.

use std::{
    fmt::Display,
    time::{Duration, Instant},
};

/// How long to look.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Looks again and again until `look` is `Ok`; panics with the last `Err` of a look that began when the time was over.
pub async fn eventually<T, S: Display>(what: &str, mut attempt: impl AsyncFnMut() -> Result<T, S>) -> T {
    let start = Instant::now();
    loop {
        let is_last = start.elapsed() > TIMEOUT;
        match attempt().await {
            Ok(value) => return value,
            Err(state) if is_last => panic!("waited {TIMEOUT:?} for {what}; last seen: {state}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}
