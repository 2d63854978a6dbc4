//! Routes the requests of this function.

use platform::http::{ApiError, Request, Response, method_not_allowed, not_found};
use spin_sdk::http::Method;

use crate::{list, order};

/// Calls the handler of the request's route.
pub async fn route(request: &Request) -> Result<Response, ApiError> {
    if request.method != Method::GET {
        return Err(method_not_allowed("GET"));
    }
    match request.segments()[..] {
        ["api", "orders"] => list::get(request).await,
        ["api", "orders", order_no] => order::get(request, order_no).await,
        _ => Err(not_found("No such route.")),
    }
}
