//! Serves published activities to visitors: the list, one activity, and the gate; counts who wants to be reminded.

mod gate;
mod info;
mod list;
mod remind;

use domain::routes::Activity;
use platform::http::{ApiError, Request, Response};

platform::http_service!(route, cors_below = "/api/");

async fn route(request: &Request) -> Result<Response, ApiError> {
    let (endpoint, [activity, _]) = request.route()?;
    match endpoint {
        Activity::List => list::get().await,
        Activity::Info => info::get(activity).await,
        Activity::GateJson => gate::json(activity).await,
        Activity::GateScript => gate::script(activity).await,
        Activity::Remind => remind::post(request, activity).await,
    }
}
