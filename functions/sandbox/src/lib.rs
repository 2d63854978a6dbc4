//! Stands in for the shop's sign-in and a payment provider; for development only.

mod pay;
mod refunds;
mod routes;
mod sign_in;

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
