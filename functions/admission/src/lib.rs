//! Issues tickets to signed-in users, after a human check if the activity requires one (B1, B2, B5).

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
