//! What a schedule runs, what may go wrong in it, and what is checked after it.

use futures::future::LocalBoxFuture;

use super::{Call, Outcome, Ports};

/// What may go wrong in a schedule, besides the order of the calls.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// How many faults a schedule has at most.
    pub count: u8,
    /// A workflow dies before a call, or after it took effect; it may be started again, once.
    pub deaths: bool,
    /// A call times out, and took effect or not.
    pub timeouts: bool,
    /// Redis goes back to the state at the start of the schedule, or to a later one.
    pub losses: bool,
}

/// What the workflows of a schedule are, and what must hold after it.
pub struct Plan<'a> {
    /// A name for each workflow.
    pub names: Vec<String>,
    /// Starts a workflow.
    pub start: &'a dyn Fn(usize, Ports) -> LocalBoxFuture<'static, Outcome>,
    /// Recovers, and returns what is wrong then.
    pub check: &'a dyn Fn(Ports, Ending) -> LocalBoxFuture<'static, Result<(), String>>,
    /// What may go wrong.
    pub faults: Faults,
}

/// How the workflows of a schedule ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ending {
    /// The outcome of each workflow's last attempt, and whether an earlier one is unknown.
    pub workflows: Vec<(Outcome, bool)>,
    /// Whether Redis went back to an earlier state.
    pub lost: bool,
}

/// What happens in a step of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    Call,
    DeathBefore,
    DeathAfter,
    TimeoutBefore,
    TimeoutAfter,
    Saved,
    Lost,
}

impl Plan<'_> {
    /// A step as a line of a schedule.
    pub fn describe(&self, event: Event, workflow: usize, call: Option<&Call>) -> String {
        let what = match event {
            Event::Call => "",
            Event::DeathBefore => "dies before ",
            Event::DeathAfter => "dies after ",
            Event::TimeoutBefore => "times out before ",
            Event::TimeoutAfter => "times out after ",
            Event::Saved => return "    Redis saves".to_owned(),
            Event::Lost => return "    Redis goes back to what it saved".to_owned(),
        };
        let call = call.map(ToString::to_string).unwrap_or_default();
        format!("    {:10} {what}{call}", self.names[workflow])
    }
}
