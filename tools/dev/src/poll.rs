//! Polls a condition until a deadline; a timeout reports the last state.

use std::{
    fmt::Display,
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

/// Pause between two probes.
pub const INTERVAL: Duration = Duration::from_millis(20);

/// Result of a probe.
pub enum Probe<T, S> {
    /// The condition is met.
    Ready(T),
    /// Not yet; the current state, for the timeout's message.
    Pending(S),
}

/// Calls `probe` until it returns [`Probe::Ready`]. Returns an error of `probe` at once. The error of a timeout names
/// `what`, the time waited and the last state.
pub fn until<T, S: Display>(
    what: &str,
    timeout: Duration,
    mut probe: impl FnMut() -> Result<Probe<T, S>>,
) -> Result<T> {
    let start = Instant::now();
    // Probes once more after the deadline, because this thread may have been suspended past it.
    let mut is_last = false;
    loop {
        match probe()? {
            Probe::Ready(value) => return Ok(value),
            Probe::Pending(state) if is_last => {
                bail!("waited {:.1} s for {what}; last seen: {state}", timeout.as_secs_f64())
            }
            Probe::Pending(_) => sleep(INTERVAL),
        }
        is_last = start.elapsed() > timeout;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_reports_the_last_state() {
        let mut probes = 0;
        let error = until("the moon", Duration::from_millis(50), || {
            probes += 1;
            Ok(Probe::<(), _>::Pending(format!("cloud {probes}")))
        })
        .expect_err("it never comes");
        assert_eq!(error.to_string(), format!("waited 0.1 s for the moon; last seen: cloud {probes}"));
        assert!(probes > 1);
    }

    #[test]
    fn a_ready_value_is_returned_at_once() {
        let seen = until("a thing", Duration::ZERO, || Ok(Probe::<_, &str>::Ready(7))).expect("it is there");
        assert_eq!(seen, 7);
    }
}
