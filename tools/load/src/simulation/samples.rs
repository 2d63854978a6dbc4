//! Samples the stock during the sale, because I1 must hold at every moment.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde::Serialize;
use tokio::task::JoinSet;

use super::setup::TestActivity;
use crate::{
    app::App,
    wire::{SkuStock, Stats},
};

/// Pause between two samples: often enough to follow the sale, rarely enough to be no load.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(250);

#[derive(Debug, Clone, Serialize)]
pub struct StockSample {
    /// Milliseconds since the start of the run.
    pub at_ms: u64,
    #[serde(flatten)]
    pub stock: SkuStock,
}

pub struct StockSampler {
    samples: Arc<Mutex<Vec<StockSample>>>,
    _task: JoinSet<()>,
}

impl StockSampler {
    pub fn start(app: &App, activity: &TestActivity) -> Self {
        let samples = Arc::new(Mutex::new(Vec::new()));
        let (app, activity, sink) = (app.clone(), activity.clone(), samples.clone());
        let mut task = JoinSet::new();
        task.spawn(async move {
            loop {
                if let Some(stats) = fetch_stats(&app, &activity, SAMPLE_INTERVAL).await {
                    let at_ms = app.meter.elapsed_ms();
                    let seen = stats.skus.into_iter().map(|stock| StockSample { at_ms, stock });
                    sink.lock().unwrap_or_else(PoisonError::into_inner).extend(seen);
                }
                tokio::time::sleep(SAMPLE_INTERVAL).await;
            }
        });
        Self { samples, _task: task }
    }

    pub fn stop(self) -> Vec<StockSample> {
        std::mem::take(&mut *self.samples.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The activity's stats from the admin API, retried for up to `timeout`.
pub async fn fetch_stats(app: &App, activity: &TestActivity, timeout: Duration) -> Option<Stats> {
    app.admin_get(activity.admin_path("/stats"), timeout).await
}
