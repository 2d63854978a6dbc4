//! Expires unpaid orders and finishes interrupted work; called by cron (E3, G3).

mod sweep;

use platform::http::serve;
use spin_sdk::{
    http::Request,
    http_service,
    wasip3::http::types::{ErrorCode, Response},
};

#[http_service]
async fn handle(request: Request) -> Result<Response, ErrorCode> {
    serve(request, sweep::post).await
}
