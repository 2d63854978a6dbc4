//! Routes the requests of this function.

use domain::{http::routes::Admission, ids::ActivityId};
use platform::http::{ApiError, Request, Response, not_found};

use crate::{challenge, ticket};

/// Calls the handler of the request's route.
pub async fn route(request: &Request) -> Result<Response, ApiError> {
    let (endpoint, [activity, _]) = request.route()?;
    let activity = ActivityId::parse(activity).map_err(|_| not_found("There is no such sale."))?;
    match endpoint {
        Admission::Challenge => challenge::post(request, activity).await,
        Admission::Ticket => ticket::post(request, activity).await,
    }
}
