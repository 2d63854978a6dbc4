//! Pages of lists.

use std::fmt::Display;

use domain::http::problem::{FieldError, Problem};

use crate::http::{Request, query_decode};

/// The query parameter `limit`: the most items of a page, which is `maximum` unless the request says less.
pub fn limit(request: &Request, maximum: i64) -> Result<i64, Problem> {
    Ok(number(request, "limit", maximum)?.unwrap_or(maximum))
}

/// The query parameter `before`: the `next` of the page before; `None` for the first page.
#[must_use]
pub fn before(request: &Request) -> Option<String> {
    text(request, "before")
}

/// A query parameter, decoded; `None` if it is empty or absent. It is without NUL, which PostgreSQL refuses.
#[must_use]
pub fn text(request: &Request, name: &str) -> Option<String> {
    request.query_param(name).map(|text| query_decode(text).replace('\0', "")).filter(|text| !text.is_empty())
}

/// Parses a query parameter if it is there. The reason why it is wrong is added to `errors`.
pub fn parse<T, E: Display>(
    request: &Request,
    name: &str,
    parse: impl Fn(&str) -> Result<T, E>,
    errors: &mut Vec<FieldError>,
) -> Option<T> {
    let parsed = parse(&text(request, name)?);
    parsed.map_err(|error| errors.push(FieldError::new(format!("?{name}"), error.to_string()))).ok()
}

/// A query parameter that is a number from 1 to `maximum`, if the request has it.
pub fn number(request: &Request, name: &str, maximum: i64) -> Result<Option<i64>, Problem> {
    let Some(text) = request.query_param(name).filter(|text| !text.is_empty()) else { return Ok(None) };
    let number = text.parse().ok().filter(|number| (1..=maximum).contains(number));
    let detail = format!("must be 1 to {maximum}");
    number.map(Some).ok_or_else(|| Problem::invalid(vec![FieldError::new(format!("?{name}"), detail)]))
}
