//! Routes the requests of this function. Unless the variable `sandbox` is `on`, every route is `not_found`.

use platform::{
    config,
    http::{ApiError, Request, Response, method_not_allowed, not_found},
};
use spin_sdk::http::Method;

use crate::{pay, refunds, sign_in};

/// Calls the handler of the request's route.
pub async fn route(request: &Request) -> Result<Response, ApiError> {
    if &*config::get("sandbox").await != "on" {
        return Err(not_found("No such route."));
    }
    match (&request.method, &request.segments()[..]) {
        (&Method::POST, ["sandbox", "sign-in"]) => sign_in::post(request).await,
        (&Method::GET, ["sandbox", "pay", session]) => pay::page(session).await,
        (&Method::POST, ["sandbox", "pay", session]) => pay::post(request, session).await,
        (&Method::POST, ["sandbox", "refunds"]) => refunds::post(request).await,
        (_, ["sandbox", "sign-in" | "refunds"]) => Err(method_not_allowed("POST")),
        (_, ["sandbox", "pay", _]) => Err(method_not_allowed("GET, POST")),
        _ => Err(not_found("No such route.")),
    }
}
