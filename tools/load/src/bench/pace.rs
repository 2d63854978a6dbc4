//! Hands out the times at which requests are due, at a fixed rate.

use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Due times, one for each request. They do not wait for responses: if all connections are busy, requests queue.
pub struct Pace(Mutex<UnboundedReceiver<Instant>>);

impl Pace {
    /// Starts now, with `per_second` due times for `duration`.
    ///
    /// A thread of its own keeps the time: the runtime's timer has a resolution of a millisecond.
    pub fn start(per_second: f64, duration: Duration) -> Self {
        let (sender, receiver) = unbounded_channel();
        let started_at = Instant::now();
        thread::spawn(move || {
            for number in 0.. {
                let after = Duration::from_secs_f64(f64::from(number) / per_second);
                thread::sleep((started_at + after).saturating_duration_since(Instant::now()));
                if after >= duration || sender.send(started_at + after).is_err() {
                    return;
                }
            }
        });
        Self(Mutex::new(receiver))
    }

    /// Waits for the next due time; `None` at the end.
    pub async fn next(&self) -> Option<Instant> {
        self.0.lock().await.recv().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn due_times_have_the_rate_and_end() {
        let pace = Pace::start(1_000.0, Duration::from_millis(50));
        let first = pace.next().await.unwrap();
        let mut last = first;
        let mut count = 1;
        while let Some(due) = pace.next().await {
            (last, count) = (due, count + 1);
        }
        assert_eq!(count, 50);
        assert_eq!((last - first).as_millis(), 49);
    }
}
