//! Waiting for a state, with a deadline and with the last state in the failure.

use std::{
    fmt::Display,
    time::{Duration, Instant},
};

/// Looks again and again until `look` is `Ok`; panics with the last `Err` when 30 seconds have passed.
pub async fn eventually<T, S: Display>(what: &str, mut look: impl AsyncFnMut() -> Result<T, S>) -> T {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match look().await {
            Ok(value) => return value,
            Err(state) if Instant::now() > deadline => panic!("waited 30 s for {what}; last seen: {state}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}
