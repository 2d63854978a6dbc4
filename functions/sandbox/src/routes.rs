//! Routes the requests of this function. Unless the variable `sandbox` is `on`, every route is `not_found`.

use domain::routes::{Sandbox, no_such_route};
use platform::{
    config,
    http::{ApiError, Request, Response},
};

use crate::{pay, refunds, sign_in};

/// Calls the handler of the request's route.
pub async fn route(request: &Request) -> Result<Response, ApiError> {
    if &*config::get("sandbox").await != "on" {
        return Err(no_such_route().into());
    }
    let (endpoint, [session, _]) = request.route()?;
    match endpoint {
        Sandbox::SignIn => sign_in::post(request).await,
        Sandbox::PaymentPage => pay::page(session).await,
        Sandbox::Pay => pay::post(request, session).await,
        Sandbox::Refund => refunds::post(request).await,
    }
}
