//! Lets the right people in: a signed-in user gets a ticket, and solves a human check first where the sale asks for one.

mod challenge;
mod human_check;
mod precheck;
mod routes;
mod ticket;

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
