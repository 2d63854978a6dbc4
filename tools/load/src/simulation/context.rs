//! State that all buyers of one simulated sale share.

use std::time::{Duration, Instant};

use http::header::HeaderValue;
use tokio::sync::watch;

use super::{
    gate::GateView, line::state::LineState, options::Options, plan::Visit, progress::Progress, setup::TestActivity,
};
use crate::app::App;

pub struct RunContext {
    pub app: App,
    pub options: Options,
    pub activity: TestActivity,
    pub visits: Vec<Visit>,
    /// `Bearer <JWT>` per buyer and robot.
    pub user_tokens: Vec<HeaderValue>,
    pub tickets: Vec<IssuedTicket>,
    /// The gate's state from the poller.
    pub gate: watch::Receiver<GateView>,
    pub line: LineState,
    pub progress: Progress,
}

/// A ticket: as text for the reservation, and as a header for polling.
#[derive(Debug, Clone)]
pub struct IssuedTicket {
    pub ticket: String,
    pub bearer: HeaderValue,
}

impl RunContext {
    /// Time from the start of the run to `moment`.
    pub fn since_start(&self, moment: Instant) -> Duration {
        moment.saturating_duration_since(self.app.meter.origin())
    }

    /// The user id of the buyer with this index.
    pub fn user_id(&self, buyer: usize) -> String {
        self.activity.user_id(buyer)
    }
}
