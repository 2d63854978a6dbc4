//! Routes the requests of this function. Unless the variable `sandbox` is `on`, every route is `not_found`. Beside a real
//! payment provider it refuses to serve: any client could sign in as any user.

use domain::http::routes::{Sandbox, no_such_route};
use platform::{
    http::{ApiError, Request, Response},
    settings,
};

use crate::{pay, payments, sign_in};

/// Calls the handler of the request's route.
pub async fn route(request: &Request) -> Result<Response, ApiError> {
    if !*settings::load(settings::SANDBOX).await? {
        return Err(no_such_route().into());
    }
    let (endpoint, [session, _]) = request.route()?;
    match endpoint {
        Sandbox::SignIn => sign_in::post(request).await,
        Sandbox::PaymentPage => pay::page(session).await,
        Sandbox::Pay => pay::post(request, session).await,
        Sandbox::Payments => payments::post(request).await,
    }
}
