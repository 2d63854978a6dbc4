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
pub enum Look<T, S> {
    /// It is there.
    Done(T),
    /// Not yet; this is what there is instead.
    Waiting(S),
}

/// Looks again and again until it is there.
///
/// # Errors
/// What was waited for, for how long, and the last state that was seen; or the error of a look, at once.
pub fn until<T, S: Display>(what: &str, patience: Duration, mut look: impl FnMut() -> Result<Look<T, S>>) -> Result<T> {
    let start = Instant::now();
    // The last look begins when the time is over: it may have stood still for longer than that.
    let mut last = false;
    loop {
        match look()? {
            Look::Done(value) => return Ok(value),
            Look::Waiting(state) if last => {
                bail!("waited {:.1} s for {what}; last seen: {state}", patience.as_secs_f64())
            }
            Look::Waiting(_) => sleep(INTERVAL),
        }
        last = start.elapsed() > patience;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_state_is_in_the_message() {
        let mut looks = 0;
        let error = until("the moon", Duration::from_millis(50), || {
            looks += 1;
            Ok(Look::<(), _>::Waiting(format!("cloud {looks}")))
        })
        .expect_err("it never comes");
        assert_eq!(error.to_string(), format!("waited 0.1 s for the moon; last seen: cloud {looks}"));
        assert!(looks > 1);
    }

    #[test]
    fn what_is_there_is_returned_at_once() {
        let seen = until("a thing", Duration::ZERO, || Ok(Look::<_, &str>::Done(7))).expect("it is there");
        assert_eq!(seen, 7);
    }
}
