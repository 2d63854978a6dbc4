//! Which request is answered where.

use platform::http::{Answer, Call, Failure, method_not_allowed, not_found};
use spin_sdk::http::Method;

use crate::{list, order};

/// Finds the answer.
pub async fn route(call: &Call) -> Result<Answer, Failure> {
    if call.method != Method::GET {
        return Err(method_not_allowed("GET"));
    }
    match call.segments()[..] {
        ["api", "orders"] => list::get(call).await,
        ["api", "orders", order_no] => order::get(call, order_no).await,
        _ => Err(not_found("No such route.")),
    }
}
