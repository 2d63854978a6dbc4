//! Lets buyers pay, cancel and request refunds of their orders (E1, E4).

mod cancel;
mod outcome;
mod pay;
mod refund;
mod routes;

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
