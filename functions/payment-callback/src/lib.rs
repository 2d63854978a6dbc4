//! Receives payment callbacks from providers (E2, E5).

mod routes;
mod signature;
mod standard;
mod stripe;

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
