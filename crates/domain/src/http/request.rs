//! HTTP requests as handlers see them: route, headers, query, body and request id.

use std::cell::Cell;

use http::Method;

use crate::http::{
    problem::Problem,
    routes::{self, Endpoint, Route},
};

/// The header lines of a request. An engine copies a header only when it is asked for.
pub trait Headers {
    /// Returns the values of all lines of the header `name` (lower case), in their order.
    fn values(&self, name: &str) -> Vec<Vec<u8>>;
}

/// A request with its complete body.
pub struct Request<H> {
    /// The method.
    pub method: Method,
    /// The path and the query.
    target: String,
    /// The headers.
    pub headers: H,
    /// The body.
    pub body: Vec<u8>,
    /// The id of this request in the log and in `x-request-id`.
    pub request_id: String,
    /// The route that [`Request::route`] found.
    found: Cell<Option<&'static Route>>,
}

impl<H: Headers> Request<H> {
    /// Creates a request from its request target: the path, and `?` and the query if there is one.
    #[must_use]
    pub fn new(method: Method, target: String, headers: H, body: Vec<u8>, request_id: String) -> Self {
        Self { method, target, headers, body, request_id, found: Cell::default() }
    }

    /// Returns the path, without the query and not percent-decoded.
    #[must_use]
    pub fn path(&self) -> &str {
        match self.target.split_once('?').map_or(&*self.target, |(path, _)| path) {
            "" => "/",
            path => path,
        }
    }

    /// Returns a query parameter's first value, not percent-decoded.
    #[must_use]
    pub fn query_param(&self, name: &str) -> Option<&str> {
        self.query()
            .split('&')
            .find_map(|pair| pair.split_once('=').filter(|(key, _)| *key == name).map(|(_, value)| value))
    }

    /// Returns the query, not percent-decoded.
    pub fn query(&self) -> &str {
        self.target.split_once('?').map_or("", |(_, query)| query)
    }

    /// Returns the names of the query's parameters, not percent-decoded.
    pub fn query_names(&self) -> impl Iterator<Item = &str> {
        self.query().split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.split('=').next().unwrap_or_default())
    }

    /// Returns the request's endpoint and the values of the path's parameters, as [`routes::find`] does.
    pub fn route<E: Endpoint>(&self) -> Result<(E, [&str; 2]), Problem> {
        let (endpoint, params): (E, _) = routes::find(&self.method, self.path())?;
        self.found.set(endpoint.route());
        Ok((endpoint, params))
    }

    /// The route that [`Request::route`] found last.
    #[must_use]
    pub fn found_route(&self) -> Option<&'static Route> {
        self.found.get()
    }

    /// Returns a header's first value; `None` if it is missing or not ASCII.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<String> {
        first_value(&self.headers, name)
    }

    /// Returns the token of `Authorization: Bearer`.
    #[must_use]
    pub fn bearer(&self) -> Option<String> {
        let value = self.header("authorization")?;
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
    }

    /// Returns whether `If-None-Match` (RFC 9110, 13.1.2) is `*` or lists `etag`, by weak comparison.
    #[must_use]
    pub fn matches_etag(&self, etag: &str) -> bool {
        let lines = self.headers.values("if-none-match");
        lines
            .iter()
            .filter_map(|line| std::str::from_utf8(line).ok())
            .flat_map(|list| list.split(','))
            .map(str::trim)
            .any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
    }
}

/// Returns a header's first value; `None` if it is missing or not ASCII.
pub(crate) fn first_value(headers: &impl Headers, name: &str) -> Option<String> {
    let value = headers.values(name).into_iter().next()?;
    String::from_utf8(value).ok().filter(|text| text.is_ascii())
}

/// Returns the length of the body that `Content-Length` announces; `None` if the header is missing or not a number.
#[must_use]
pub fn content_length(headers: &impl Headers) -> Option<usize> {
    first_value(headers, "content-length")?.parse().ok()
}

/// Makes the request ids of an instance: a random prefix and a counter.
pub struct RequestIds {
    prefix: String,
    count: u64,
}

impl RequestIds {
    /// Starts to count. `random` tells instances apart.
    #[must_use]
    pub fn new(random: u64) -> Self {
        Self { prefix: format!("{random:016x}-"), count: 0 }
    }

    /// Returns the client's `x-request-id` if it is valid (1 to 64 letters, digits and `-`), else a new id.
    pub fn id(&mut self, headers: &impl Headers) -> String {
        let is_valid =
            |id: &String| (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        first_value(headers, "x-request-id").filter(is_valid).unwrap_or_else(|| {
            self.count += 1;
            self.prefix.clone() + &self.count.to_string()
        })
    }
}

/// Header lines in a list, for tests.
impl Headers for &[(&str, &str)] {
    fn values(&self, name: &str) -> Vec<Vec<u8>> {
        self.iter().filter(|(known, _)| *known == name).map(|(_, value)| value.as_bytes().to_vec()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request<'a>(target: &str, headers: &'a [(&'a str, &'a str)]) -> Request<&'a [(&'a str, &'a str)]> {
        Request::new(Method::GET, target.to_owned(), headers, Vec::new(), "id".to_owned())
    }

    #[test]
    fn the_path_ends_at_the_first_question_mark() {
        for (target, path) in
            [("/a/b?c=/d?e", "/a/b"), ("/a%3Fb", "/a%3Fb"), ("/a?", "/a"), ("?a", "/"), ("", "/"), ("*", "*")]
        {
            assert_eq!(request(target, &[]).path(), path, "{target}");
        }
    }

    #[test]
    fn a_query_parameter_is_its_first_value_as_it_was_sent() {
        let request = request("/a?x=1&y=%20&&x=2&z&empty=&q=a=b?c", &[]);
        for (name, value) in
            [("x", Some("1")), ("y", Some("%20")), ("z", None), ("empty", Some("")), ("q", Some("a=b?c")), ("a", None)]
        {
            assert_eq!(request.query_param(name), value, "{name}");
        }
        assert_eq!(request.query_names().collect::<Vec<_>>(), ["x", "y", "x", "z", "empty", "q"]);
        assert_eq!(self::request("/a", &[]).query_param("x"), None);
        assert_eq!(self::request("/a", &[]).query_names().count(), 0);
    }

    #[test]
    fn the_bearer_token_is_what_follows_the_scheme() {
        for (value, token) in [
            ("Bearer abc", Some("abc")),
            ("bearer  abc ", Some("abc")),
            ("Basic abc", None),
            ("Bearer", None),
            ("Bearer ab\u{e7}", None),
        ] {
            assert_eq!(request("/", &[("authorization", value)]).bearer().as_deref(), token, "{value}");
        }
        assert_eq!(request("/", &[]).bearer(), None);
        assert_eq!(
            request("/", &[("authorization", "Bearer a"), ("authorization", "Bearer b")]).bearer().as_deref(),
            Some("a")
        );
    }

    #[test]
    fn if_none_match_lists_etags_in_any_number_of_lines() {
        for (lines, matches) in [
            (&[r#""a""#][..], true),
            (&[r#"W/"a""#], true),
            (&[r#""b", W/"a""#], true),
            (&[r#""b""#, r#""a""#], true),
            (&["*"], true),
            (&[r#""b""#], false),
            (&["a"], false),
            (&[""], false),
            (&[r#""",,W/"#], false),
            (&[], false),
        ] {
            let headers: Vec<_> = lines.iter().map(|line| ("if-none-match", *line)).collect();
            assert_eq!(request("/", &headers).matches_etag(r#""a""#), matches, "{lines:?}");
        }
    }
}
