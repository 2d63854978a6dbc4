//! Reserves units for a ticket: `POST /api/activities/:activity/orders`, the hot path.

mod gate_refresh;
mod order;

use platform::http::serve;
use spin_sdk::{
    http::Request,
    http_service,
    wasip3::http::types::{ErrorCode, Response},
};

#[http_service]
async fn handle(request: Request) -> Result<Response, ErrorCode> {
    serve(request, order::post).await
}
