//! Calls the sweeper every five seconds, in place of a cron job.

use std::{
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread,
    time::Duration,
};

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::http::Client;

const PERIOD: Duration = Duration::from_secs(5);

/// Calls the sweeper every five seconds until it is dropped.
pub struct SweepTimer(#[allow(dead_code, reason = "dropping it ends the thread")] Sender<()>);

impl SweepTimer {
    /// Starts to call the sweeper of the app at `url`. It runs in its own thread, so that a slow call does not block
    /// supervision.
    pub fn start(url: &str, token: &str) -> Self {
        let (stop, stopped) = mpsc::channel::<()>();
        let (client, token) = (Client::new(url, Duration::from_secs(60)), token.to_owned());
        thread::spawn(move || {
            let mut failing = false;
            while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                match (sweep(&client, &token), failing) {
                    (Err(error), false) => println!("the sweeper fails: {error:#}; it is called again every 5 s"),
                    (Ok(()), true) => println!("the sweeper works again"),
                    (result, _) => {
                        failing = result.is_err();
                        continue;
                    }
                }
                failing = !failing;
            }
        });
        Self(stop)
    }
}

fn sweep(client: &Client, token: &str) -> Result<()> {
    let response = client.send("POST", "/api/tasks/sweep", token, &Value::Null)?;
    ensure!(response.status == 200, "POST /api/tasks/sweep answered {} {}", response.status, response.body);
    Ok(())
}
