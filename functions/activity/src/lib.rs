//! Serves published activities to visitors: the list, one activity, and the gate.

mod gate;
mod info;
mod list;

use domain::routes::Activity;
use platform::http::{ApiError, Request, Response, serve};
use spin_sdk::{
    http::Request as SpinRequest,
    http_service,
    wasip3::http::types::{ErrorCode, Response as WasiResponse},
};

#[http_service]
async fn handle(request: SpinRequest) -> Result<WasiResponse, ErrorCode> {
    serve(request, route).await
}

async fn route(request: &Request) -> Result<Response, ApiError> {
    let (endpoint, [activity, _]) = request.route()?;
    match endpoint {
        Activity::List => list::get().await,
        Activity::Info => info::get(activity).await,
        Activity::GateJson => gate::json(activity).await,
        Activity::GateScript => gate::script(activity).await,
    }
}
