//! Serves operators: activities, stats, audit, bans, dead letters, callbacks, events, health and metrics.

mod activities;
mod bans;
mod callbacks;
mod dead_letters;
mod events;
mod health;
mod metrics;
mod orders;
mod routes;
mod shed;
mod stats;

use platform::http::serve;
use spin_sdk::{
    http::Request,
    http_service,
    wasip3::http::types::{ErrorCode, Response},
};

#[http_service]
async fn handle(request: Request) -> Result<Response, ErrorCode> {
    serve(request, routes::route).await
}
