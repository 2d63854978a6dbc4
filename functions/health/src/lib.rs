//! Says whether the app is alive and ready, and serves its metrics. No other function has all variables.

mod metrics;
mod probes;

use domain::http::routes::Health;
use platform::http::{ApiError, Request, Response};

platform::http_service!(route);

async fn route(request: &Request) -> Result<Response, ApiError> {
    match request.route()?.0 {
        Health::Live => Ok(probes::live()),
        Health::Ready => probes::ready(request).await,
        Health::Metrics => metrics::get(request).await,
    }
}
