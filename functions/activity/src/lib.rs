//! Serves published activities to visitors: the list, one activity, and the gate; counts who wants to be reminded.

mod gate;
mod info;
mod list;
mod remind;

use domain::{problem::Code, routes::Activity};
use platform::http::{ApiError, Request, Response};

platform::http_service!(route, cors_below = "/api/");

async fn route(request: &Request) -> Result<Response, ApiError> {
    let (endpoint, [activity, _]) = request.route()?;
    match endpoint {
        Activity::List => for_everybody(list::get().await),
        Activity::Info => for_everybody(info::get(activity).await),
        Activity::GateJson => for_everybody(gate::json(activity).await),
        Activity::GateScript => for_everybody(gate::script(activity).await),
        Activity::Remind => remind::post(request, activity).await,
    }
}

/// Lets caches serve a response to every client for a second; also that there is no such sale, because a crowd may ask for
/// one that is not published yet.
fn for_everybody(result: Result<Response, ApiError>) -> Result<Response, ApiError> {
    let response = match result {
        Err(ApiError::Problem(problem)) if problem.code == Code::NotFound => Response::from(*problem),
        result => result?,
    };
    Ok(response.header("cache-control", "public, max-age=0, s-maxage=1"))
}
