//! Serves operators: sales, figures, audit, health, metrics.

mod activities;
mod callbacks;
mod dead_letters;
mod events;
mod figures;
mod health;
mod metrics;
mod orders;
mod people;
mod routes;
mod shed;

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
