//! Looks at the stock while the sale runs: I1 must hold at every moment, not only at the end.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::task::JoinSet;

use super::setup::Terms;
use crate::app::App;
use crate::http::Call;
use crate::wire::{SkuStock, Stats};

/// Pause between two looks: often enough to see a rush, rarely enough not to be one.
const PACE: Duration = Duration::from_millis(250);

/// The stock of a SKU at a moment.
#[derive(Debug, Clone, Serialize)]
pub struct Sample {
    /// Milliseconds since the run began.
    pub at_ms: u64,
    /// What was left, held and sold.
    #[serde(flatten)]
    pub stock: SkuStock,
}

/// Samples until it is stopped.
pub struct Sampler {
    samples: Arc<Mutex<Vec<Sample>>>,
    _task: JoinSet<()>,
}

impl Sampler {
    /// Starts sampling.
    pub fn start(app: &App, terms: &Terms) -> Self {
        let samples = Arc::new(Mutex::new(Vec::new()));
        let (app, terms, sink) = (app.clone(), terms.clone(), samples.clone());
        let mut task = JoinSet::new();
        task.spawn(async move {
            loop {
                if let Some(stats) = stats(&app, &terms, PACE).await {
                    let at_ms = app.meter.now_ms();
                    let seen = stats.skus.into_iter().map(|stock| Sample { at_ms, stock });
                    sink.lock().unwrap_or_else(PoisonError::into_inner).extend(seen);
                }
                tokio::time::sleep(PACE).await;
            }
        });
        Self { samples, _task: task }
    }

    /// Stops and hands over what was seen.
    pub fn stop(self) -> Vec<Sample> {
        std::mem::take(&mut *self.samples.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The activity's live figures, asked for up to `patience`.
pub async fn stats(app: &App, terms: &Terms, patience: Duration) -> Option<Stats> {
    let answer = app.admin(Call::get(terms.admin_path("/stats")), patience).await.ok()?;
    answer.success("asking for the live figures").ok()?.parse().ok()
}
