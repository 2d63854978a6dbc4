//! Serves published activities to visitors: the list, one activity, and the gate.

mod gate;
mod info;
mod list;

use platform::http::{ApiError, Request, Response, method_not_allowed, not_found, serve};
use spin_sdk::{
    http::{Method, Request as SpinRequest},
    http_service,
    wasip3::http::types::{ErrorCode, Response as WasiResponse},
};

#[http_service]
async fn handle(request: SpinRequest) -> Result<WasiResponse, ErrorCode> {
    serve(request, route).await
}

async fn route(request: &Request) -> Result<Response, ApiError> {
    if request.method != Method::GET {
        return Err(method_not_allowed("GET"));
    }
    match request.segments()[..] {
        ["api", "activities"] => list::get().await,
        ["api", "activities", activity] => info::get(activity).await,
        ["api", "activities", activity, "gate.json"] => gate::json(activity).await,
        ["api", "activities", activity, "gate.js"] => gate::script(activity).await,
        _ => Err(not_found("No such route.")),
    }
}
