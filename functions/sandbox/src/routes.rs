//! Routes the requests of this function. Unless the variable `sandbox` is `on`, every route is `not_found`. Beside a real
//! payment provider it refuses to serve: any client could sign in as any user.

use domain::{
    http::routes::{Sandbox, no_such_route},
    webhook::PaymentProvider,
};
use platform::{
    config,
    http::{ApiError, Request, Response},
    provider,
};

use crate::{pay, payments, sign_in};

/// Calls the handler of the request's route.
pub async fn route(request: &Request) -> Result<Response, ApiError> {
    if &*config::get("sandbox").await != "on" {
        return Err(no_such_route().into());
    }
    if provider::configured().await? != PaymentProvider::Sandbox {
        let reason = "is on, and payment_provider is not sandbox: set it to off";
        return Err(config::misconfigured("sandbox", reason).into());
    }
    let (endpoint, [session, _]) = request.route()?;
    match endpoint {
        Sandbox::SignIn => sign_in::post(request).await,
        Sandbox::PaymentPage => pay::page(session).await,
        Sandbox::Pay => pay::post(request, session).await,
        Sandbox::Payments => payments::post(request).await,
    }
}
