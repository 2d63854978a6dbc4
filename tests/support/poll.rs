//! Polls for a state, with a timeout and the last state in the failure message.

use std::{
    fmt::Display,
    time::{Duration, Instant},
};

use super::Response;

/// Time after which polling fails.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Sends a request every 50 ms until its response has `status`, and returns the response.
pub async fn eventually_is(what: &str, status: u16, mut send: impl AsyncFnMut() -> Response) -> Response {
    eventually(what, async || {
        let response = send().await;
        if response.status == status { Ok(response) } else { Err(format!("{response:?}")) }
    })
    .await
}

/// Runs `attempt` every 50 ms until it returns `Ok`. After a minute, runs it once more and panics with its `Err`.
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
