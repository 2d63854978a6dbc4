//! Waiting for something, with a deadline and with the last thing seen in the failure.

use std::{
    fmt::Display,
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

/// How long to wait between two looks.
pub const INTERVAL: Duration = Duration::from_millis(20);

/// One look.
pub enum Probe<T, S> {
    /// It is there.
    Ready(T),
    /// Not yet; this is what there is instead.
    Pending(S),
}

/// Looks again and again until it is there.
///
/// # Errors
/// What was waited for, for how long, and the last state that was seen; or the error of a look, at once.
pub fn until<T, S: Display>(
    what: &str,
    timeout: Duration,
    mut probe: impl FnMut() -> Result<Probe<T, S>>,
) -> Result<T> {
    let start = Instant::now();
    // The last look begins when the time is over: it may have stood still for longer than that.
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
