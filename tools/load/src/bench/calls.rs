//! Calls out of the functions, as the development engine counts them. Spin does not.

use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use http::Method;
use serde::{Deserialize, Serialize};

use super::{
    server::Server,
    workload::{Workload, run_workload},
};

/// Readings, at most: others may call an app that the benchmark has not started.
const MAX_READINGS: usize = 40;

/// Calls since the start of the engine, or in a request, to each kind of host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Calls {
    ledger: f64,
    redis: f64,
    key_value: f64,
    http: f64,
}

impl Calls {
    /// Reads the counts when nothing counts for a moment: functions work on after their answers. `None` where nothing
    /// counts, and with several processes, each of which counts its own calls.
    pub async fn read(server: &Server) -> Result<Option<Self>> {
        let mut last = None;
        for _ in 0..if server.is_one_process() { MAX_READINGS } else { 0 } {
            let request = server.request(Method::GET, "/.well-known/spin/calls", None, Bytes::new())?;
            let measurement = run_workload(server, 1, Workload::once(vec![request], 200)).await?;
            let read = measurement.bodies.first().and_then(|(_, body)| serde_json::from_slice(body).ok());
            if read.is_none() || last == read {
                return Ok(read);
            }
            last = read;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(last)
    }

    /// Both together, of which `other` counts `times`.
    pub fn plus(self, other: Self, times: f64) -> Self {
        let add = |one: f64, other: f64| one + other * times;
        Self {
            ledger: add(self.ledger, other.ledger),
            redis: add(self.redis, other.redis),
            key_value: add(self.key_value, other.key_value),
            http: add(self.http, other.http),
        }
    }

    /// As a cell: `2.0 ledger, 1.0 Redis`.
    pub fn text(self) -> String {
        let named =
            [(self.ledger, "ledger"), (self.redis, "Redis"), (self.key_value, "key-value"), (self.http, "HTTP")];
        let some = named.into_iter().filter(|(count, _)| *count >= 0.05);
        some.map(|(count, name)| format!("{count:.1} {name}")).collect::<Vec<_>>().join(", ")
    }
}
