//! Polls the gate for all buyers, as a cache in front of the app would.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::{sync::watch, task::JoinSet};

use super::setup::TestActivity;
use crate::{app::App, http::Call, meter::Step, wire::Gate};

/// Pause between two polls: the error of the time at which the gate opened.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, Default)]
pub struct GateView {
    /// `scheduled`, `open`, `paused` or `ended`; empty before the first response.
    pub phase: String,
    pub start_key: Option<String>,
    pub sold_out: Vec<String>,
    pub opened_at: Option<Instant>,
    /// The period over which the gate spreads the buyers' start.
    pub jitter: Duration,
    /// How long after its start the gate was first seen open, by the server's clock.
    pub opened_late: Duration,
}

/// Polls the gate until dropped.
pub struct GatePoller {
    pub view: watch::Receiver<GateView>,
    _task: JoinSet<()>,
}

impl GatePoller {
    pub fn start(app: &App, activity: &TestActivity) -> Self {
        let (sender, view) = watch::channel(GateView::default());
        let (app, path) = (app.clone(), activity.path("/gate.json"));
        let mut task = JoinSet::new();
        task.spawn(async move {
            loop {
                let response = app.send(Step::Gate, Instant::now(), &Call::get(&path)).await;
                if let Some(gate) = response.ok().and_then(|response| response.parse::<Gate>().ok()) {
                    sender.send_if_modified(|view| view.update(&gate));
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        });
        Self { view, _task: task }
    }
}

impl GateView {
    fn update(&mut self, gate: &Gate) -> bool {
        // An instance may cache the gate for a second: after "open", "scheduled" is stale.
        if self.opened_at.is_some() && gate.phase == "scheduled" {
            return false;
        }
        if self.opened_at.is_none() && gate.phase == "open" {
            self.opened_at = Some(Instant::now());
            self.opened_late = (gate.server_time - gate.starts_at).try_into().unwrap_or_default();
        }
        let changed = self.phase != gate.phase || self.sold_out != gate.sold_out || self.start_key != gate.start_key;
        self.phase.clone_from(&gate.phase);
        self.sold_out.clone_from(&gate.sold_out);
        self.jitter = Duration::from_millis(gate.jitter_ms);
        if gate.start_key.is_some() {
            self.start_key.clone_from(&gate.start_key);
        }
        changed
    }
}

/// Waits until the gate is open. Returns when it was first seen open, and its state.
pub async fn wait_until_open(view: &mut watch::Receiver<GateView>, timeout: Duration) -> Result<(Instant, GateView)> {
    let seen = tokio::time::timeout(timeout, view.wait_for(|view| view.opened_at.is_some())).await;
    let seen = seen.ok().and_then(Result::ok).map(|view| view.clone());
    if let Some(view) = seen
        && let Some(moment) = view.opened_at
    {
        return Ok((moment, view));
    }
    let phase = view.borrow().phase.clone();
    let phase = if phase.is_empty() { "never seen".to_owned() } else { phase };
    bail!("the gate did not open within {} s of its start; it is {phase}", timeout.as_secs())
}

/// Waits for a start key. `None` if the activity has ended or `deadline` has passed.
pub async fn wait_for_start_key(view: &mut watch::Receiver<GateView>, deadline: Instant) -> Option<String> {
    let usable = |view: &GateView| view.phase == "ended" || (view.phase == "open" && view.start_key.is_some());
    let seen = tokio::time::timeout_at(deadline.into(), view.wait_for(usable)).await.ok()?.ok()?;
    if seen.phase == "ended" { None } else { seen.start_key.clone() }
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;

    use super::*;

    fn gate(phase: &str, key: Option<&str>) -> Gate {
        Gate {
            phase: phase.to_owned(),
            server_time: OffsetDateTime::UNIX_EPOCH,
            starts_at: OffsetDateTime::UNIX_EPOCH,
            jitter_ms: 50,
            sold_out: Vec::new(),
            start_key: key.map(str::to_owned),
        }
    }

    #[test]
    fn a_stale_answer_does_not_close_an_open_gate() {
        let mut view = GateView::default();
        assert!(view.update(&gate("scheduled", None)));
        assert!(view.update(&gate("open", Some("k"))));
        assert!(!view.update(&gate("scheduled", None)));
        assert_eq!((view.phase.as_str(), view.start_key.as_deref()), ("open", Some("k")));
        assert!(view.update(&gate("paused", None)));
    }
}
