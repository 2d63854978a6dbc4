//! Serves published activities to visitors: the list, one activity, its gate, and a calendar file.

mod calendar;
mod gate;
mod info;
mod list;

use domain::http::{problem::Code, routes::Activity};
use platform::http::{ApiError, Request, Response};

platform::http_service!(route, cors_below = Some("/api/"));

async fn route(request: &Request) -> Result<Response, ApiError> {
    let (endpoint, [activity, _]) = request.route()?;
    match endpoint {
        Activity::List => with_public_caching(list::get(request).await),
        Activity::Info => with_public_caching(info::get(activity).await),
        Activity::GateJson => with_public_caching(gate::json(activity).await),
        Activity::Calendar => with_public_caching(calendar::get(request, activity).await),
        Activity::GateScript => with_public_caching(gate::script(activity).await),
    }
}

/// Adds `s-maxage=1` to a success or a 404: a crowd may ask for a sale that is not published yet. Other errors are not cached.
fn with_public_caching(result: Result<Response, ApiError>) -> Result<Response, ApiError> {
    let response = match result {
        Err(ApiError::Problem(problem)) if problem.code == Code::NotFound => Response::from(*problem),
        result => result?,
    };
    Ok(response.header("cache-control", "public, max-age=0, s-maxage=1"))
}
