//! What all buyers of one sale share.

use std::time::{Duration, Instant};

use http::header::HeaderValue;
use tokio::sync::watch;

use super::gate::GateView;
use super::options::Options;
use super::plan::Visit;
use super::progress::Progress;
use super::setup::TestActivity;
use crate::app::App;

/// One running sale.
pub struct RunContext {
    /// The app.
    pub app: App,
    /// The flags.
    pub options: Options,
    /// What is on sale.
    pub activity: TestActivity,
    /// Everything that will be tried.
    pub visits: Vec<Visit>,
    /// `Bearer <JWT>` per buyer.
    pub user_tokens: Vec<HeaderValue>,
    /// A ticket per visit.
    pub tickets: Vec<IssuedTicket>,
    /// The gate, as the pollers see it.
    pub gate: watch::Receiver<GateView>,
    /// What a person sees.
    pub progress: Progress,
}

/// A ticket, as text for the reservation and as a header for polling.
#[derive(Debug, Clone)]
pub struct IssuedTicket {
    /// The ticket.
    pub ticket: String,
    /// `Bearer <ticket>`.
    pub bearer: HeaderValue,
}

impl RunContext {
    /// Time since the run began.
    pub fn since_start(&self, moment: Instant) -> Duration {
        moment.saturating_duration_since(self.app.meter.origin())
    }

    /// Whether a buyer is a robot.
    pub fn is_robot(&self, buyer: usize) -> bool {
        buyer >= self.options.buyers as usize
    }

    /// The id of a buyer.
    pub fn user_id(&self, buyer: usize) -> String {
        self.activity.user_id(buyer)
    }
}
