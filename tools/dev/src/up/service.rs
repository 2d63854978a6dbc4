//! Supervises one process: restarts it with exponential back-off when it ends.

use std::{
    fmt, fs,
    path::PathBuf,
    process::ExitStatus,
    time::{Duration, Instant},
};

use anyhow::Result;

use super::data_directory::write_atomically;
use crate::process::Process;

/// Maximum delay before a restart.
const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// A process that ran longer than this was healthy: its next restart has the initial delay again.
const HEALTHY_AFTER: Duration = Duration::from_secs(30);

type Start = Box<dyn FnMut() -> Result<Process>>;

/// A supervised process.
pub struct Service {
    name: &'static str,
    start: Start,
    pid_file: PathBuf,
    initial_backoff: Duration,
    failures: u32,
    state: State,
}

enum State {
    Running { process: Process, since: Instant },
    Waiting { until: Instant },
}

/// A change that [`Service::tick`] found or made.
pub enum Event {
    /// The process ended; it is restarted after the back-off.
    Ended {
        /// How it ended.
        status: ExitStatus,
        /// Delay until the restart.
        backoff: Duration,
        /// The last lines of its output.
        output: String,
    },
    /// The process was restarted.
    Started,
    /// The restart failed; another one follows.
    Failed(anyhow::Error),
}

impl Service {
    /// Starts the process and writes its id to `pid_file`.
    pub fn start(name: &'static str, pid_file: PathBuf, initial_backoff: Duration, mut start: Start) -> Result<Self> {
        let process = start()?;
        let mut service = Self {
            name,
            start,
            pid_file,
            initial_backoff,
            failures: 0,
            state: State::Waiting { until: Instant::now() },
        };
        service.run(process, Instant::now())?;
        Ok(service)
    }

    /// The name in messages.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The process, unless it waits for a restart.
    pub fn process(&mut self) -> Option<&mut Process> {
        match &mut self.state {
            State::Running { process, .. } => Some(process),
            State::Waiting { .. } => None,
        }
    }

    /// Checks the process once; restarts it if that is due.
    pub fn tick(&mut self, now: Instant) -> Option<Event> {
        match &mut self.state {
            State::Running { process, since } => {
                let status = process.exited()?;
                let healthy = now.duration_since(*since) > HEALTHY_AFTER;
                // Its children may still run and hold its port.
                process.kill();
                let output = process.output();
                self.failures = if healthy { 1 } else { self.failures + 1 };
                let backoff = backoff(self.initial_backoff, self.failures);
                self.state = State::Waiting { until: now + backoff };
                Some(Event::Ended { status, backoff, output })
            }
            State::Waiting { until } if now < *until => None,
            State::Waiting { .. } => match (self.start)().and_then(|process| self.run(process, now)) {
                Ok(()) => Some(Event::Started),
                Err(error) => {
                    self.failures += 1;
                    self.state = State::Waiting { until: now + backoff(self.initial_backoff, self.failures) };
                    Some(Event::Failed(error))
                }
            },
        }
    }

    /// Stops the process permanently.
    pub fn stop(&mut self) {
        if let State::Running { process, .. } = &mut self.state {
            process.stop();
        }
        let _ = fs::remove_file(&self.pid_file);
    }

    fn run(&mut self, process: Process, now: Instant) -> Result<()> {
        write_atomically(&self.pid_file, &format!("{}\n", process.id()))?;
        self.state = State::Running { process, since: now };
        Ok(())
    }
}

fn backoff(initial: Duration, failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(10);
    (initial * 2_u32.pow(doublings)).min(MAX_BACKOFF)
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended { status, backoff, .. } => {
                write!(f, "ended ({status}); starting it again in {:.1} s", backoff.as_secs_f64())
            }
            Self::Started => f.write_str("was started again"),
            Self::Failed(error) => write!(f, "could not be started: {error:#}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use tempfile::TempDir;

    use super::*;
    use crate::poll::{self, Probe};

    #[test]
    fn the_backoff_doubles_up_to_its_maximum() {
        let first = Duration::from_millis(500);
        let backoffs: Vec<u128> =
            [1, 2, 3, 7, 50].iter().map(|failures| backoff(first, *failures).as_millis()).collect();
        assert_eq!(backoffs, [500, 1000, 2000, 30_000, 30_000]);
    }

    #[test]
    fn an_ended_process_is_restarted_with_a_new_id() {
        let temp_dir = TempDir::new().expect("a directory");
        let pid_file = temp_dir.path().join("app");
        let start = || Process::spawn("sleeper", Command::new("sleep").arg("60"), None);
        let mut service =
            Service::start("app", pid_file.clone(), Duration::from_millis(1), Box::new(start)).expect("started");
        let first = fs::read_to_string(&pid_file).expect("an id");
        service.process().expect("running").signal(nix::sys::signal::Signal::SIGKILL);
        let mut next = || {
            poll::until("an event", Duration::from_secs(10), || {
                Ok(service.tick(Instant::now()).map_or(Probe::Pending("nothing"), Probe::Ready))
            })
            .expect("an event")
        };
        assert!(matches!(next(), Event::Ended { .. }));
        assert!(matches!(next(), Event::Started));
        let second = fs::read_to_string(&pid_file).expect("an id");
        assert_ne!(first, second);
        service.stop();
        assert!(!pid_file.exists());
    }
}
