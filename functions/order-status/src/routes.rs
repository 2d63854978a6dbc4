//! Routes the requests of this function.

use domain::http::routes::BuyerOrders;
use platform::http::{ApiError, Request, Response};

use crate::{list, order};

/// Calls the handler of the request's route.
pub async fn route(request: &Request) -> Result<Response, ApiError> {
    let (endpoint, [order_no, _]) = request.route()?;
    match endpoint {
        BuyerOrders::List => list::get(request).await,
        BuyerOrders::Order => order::get(request, order_no).await,
    }
}
