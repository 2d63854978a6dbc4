//! What a sale is, what is left, and whether its gate is open.

mod gate;
mod info;
mod list;

use platform::http::{Answer, Call, Failure, method_not_allowed, not_found, serve};
use spin_sdk::{
    http::{Method, Request},
    http_service,
    wasip3::http::types::{ErrorCode, Response},
};

#[http_service]
async fn handle(request: Request) -> Result<Response, ErrorCode> {
    serve(request, route).await
}

async fn route(call: &Call) -> Result<Answer, Failure> {
    if call.method != Method::GET {
        return Err(method_not_allowed("GET"));
    }
    match call.segments()[..] {
        ["api", "activities"] => list::get().await,
        ["api", "activities", activity] => info::get(activity).await,
        ["api", "activities", activity, "gate.json"] => gate::json(activity).await,
        ["api", "activities", activity, "gate.js"] => gate::script(activity).await,
        _ => Err(not_found("No such route.")),
    }
}
