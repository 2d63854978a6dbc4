//! State that all buyers of one simulated sale share.

use std::time::{Duration, Instant};

use http::header::HeaderValue;
use tokio::sync::watch;

use super::gate::GateView;
use super::options::Options;
use super::plan::Visit;
use super::progress::Progress;
use super::setup::TestActivity;
use crate::app::App;

/// One simulated sale.
pub struct RunContext {
    /// The app under test.
    pub app: App,
    /// The command-line flags.
    pub options: Options,
    /// The activity of this run.
    pub activity: TestActivity,
    /// All planned visits.
    pub visits: Vec<Visit>,
    /// `Bearer <JWT>` per buyer.
    pub user_tokens: Vec<HeaderValue>,
    /// One ticket per visit.
    pub tickets: Vec<IssuedTicket>,
    /// The gate's state from the pollers.
    pub gate: watch::Receiver<GateView>,
    /// The progress bars.
    pub progress: Progress,
}

/// A ticket: as text for the reservation, and as a header for polling.
#[derive(Debug, Clone)]
pub struct IssuedTicket {
    /// The ticket.
    pub ticket: String,
    /// `Bearer <ticket>`.
    pub bearer: HeaderValue,
}

impl RunContext {
    /// Time from the start of the run to `moment`.
    pub fn since_start(&self, moment: Instant) -> Duration {
        moment.saturating_duration_since(self.app.meter.origin())
    }

    /// Whether the buyer with this index is a robot.
    pub fn is_robot(&self, buyer: usize) -> bool {
        buyer >= self.options.buyers as usize
    }

    /// The user id of the buyer with this index.
    pub fn user_id(&self, buyer: usize) -> String {
        self.activity.user_id(buyer)
    }
}
