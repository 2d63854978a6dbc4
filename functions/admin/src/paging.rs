//! Pages of lists.

use domain::http::problem::{FieldError, Problem};
use platform::http::Request;

/// The query parameter `limit`: the most items of a page, which is `maximum` unless the request says less.
pub fn limit(request: &Request, maximum: i64) -> Result<i64, Problem> {
    match request.query_param("limit").filter(|text| !text.is_empty()) {
        None => Ok(maximum),
        Some(text) => {
            let limit = text.parse().ok().filter(|limit| (1..=maximum).contains(limit));
            let detail = format!("must be 1 to {maximum}");
            limit.ok_or_else(|| Problem::invalid(vec![FieldError::new("?limit", detail)]))
        }
    }
}
