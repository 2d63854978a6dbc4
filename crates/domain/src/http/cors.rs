//! Cross-origin requests (CORS, <https://fetch.spec.whatwg.org/#http-cors-protocol>): the shop's own pages on other
//! origins may call the buyers' routes (G13).
//!
//! Credentials are not allowed: tokens are in `Authorization`, and no route reads cookies.

use http::{Method, uri::Authority};

use crate::http::{request::Headers, response::Response};

/// What a page may read of a response, besides the headers that it always may.
const EXPOSED_HEADERS: &str =
    "Age, Date, ETag, Location, RateLimit, RateLimit-Policy, Retry-After, X-Request-Id, X-Unread-Activities";
const METHODS: &str = "GET, HEAD, POST";
/// What the buyers' routes read of a request, besides the headers that a page may always send.
const REQUEST_HEADERS: &str = "authorization, content-type, if-none-match, x-request-id";
/// How long a browser need not ask again, in seconds. Chrome caps it at two hours.
const MAX_AGE_SECONDS: &str = "7200";

/// The origins whose pages may call, from the variable `cors_origins`.
#[derive(Debug, PartialEq, Eq)]
pub struct AllowedOrigins(Vec<String>);

/// In the variable: the pages of this machine, whatever their port; for development.
const LOCALHOST: &str = "localhost";

impl AllowedOrigins {
    /// Reads a list of origins, separated by spaces or commas; `localhost` is every one of this machine.
    ///
    /// # Errors
    /// What is wrong with the first bad origin: it is not written as browsers send it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let origins = text.split([' ', ',', '\t', '\n']).filter(|origin| !origin.is_empty());
        origins.map(checked).collect::<Result<_, _>>().map(Self)
    }

    /// Whether no other origin may call.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the allowed origin of a request.
    pub fn of(&self, headers: &impl Headers) -> Option<String> {
        let origin = String::from_utf8(headers.values("origin").into_iter().next()?).ok()?;
        let is_local = || self.0.iter().any(|allowed| allowed == LOCALHOST) && is_of_this_machine(&origin);
        (self.0.contains(&origin) || is_local()).then_some(origin)
    }
}

/// Returns the response to a preflight, which asks whether a page may send a request; `None` for another request.
pub fn preflight(method: &Method, headers: &impl Headers) -> Option<Response> {
    let is_preflight = *method == Method::OPTIONS && !headers.values("access-control-request-method").is_empty();
    is_preflight.then(|| {
        Response::empty(204)
            .header("access-control-allow-methods", METHODS)
            .header("access-control-allow-headers", REQUEST_HEADERS)
            .header("access-control-max-age", MAX_AGE_SECONDS)
    })
}

/// Adds the headers with which a browser gives the response to the page of an allowed `origin`. `Vary` keeps caches from
/// giving it to another one.
#[must_use]
pub fn add_headers(response: Response, origin: Option<String>) -> Response {
    let varies = response.headers.iter().find(|(name, _)| *name == "vary").map(|(_, value)| value.to_string());
    let response = match varies {
        Some(others) => response.header("vary", format!("{others}, origin")),
        None => response.header("vary", "origin"),
    };
    match origin {
        Some(origin) => response
            .header("access-control-allow-origin", origin)
            .header("access-control-expose-headers", EXPOSED_HEADERS),
        None => response,
    }
}

/// Whether a page of this origin is on this machine.
fn is_of_this_machine(origin: &str) -> bool {
    let authority = origin.strip_prefix("http://").and_then(|rest| rest.parse::<Authority>().ok());
    authority.is_some_and(|authority| matches!(authority.host(), "localhost" | "127.0.0.1" | "[::1]"))
}

/// Returns the origin if it is written as browsers send it: a scheme, a host in lower case, and no default port.
fn checked(origin: &str) -> Result<String, String> {
    if origin == LOCALHOST {
        return Ok(origin.to_owned());
    }
    let fault = || Err(format!("has {origin:?}, which is no origin such as https://shop.example"));
    let Some((scheme @ ("http" | "https"), rest)) = origin.split_once("://") else { return fault() };
    let is_plain =
        rest.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' | b':' | b'[' | b']'));
    let Some(authority) = rest.parse::<Authority>().ok().filter(|_| is_plain) else { return fault() };
    let is_canonical = match authority.port_u16() {
        Some(80) if scheme == "http" => false,
        Some(443) if scheme == "https" => false,
        Some(port) => rest == format!("{}:{port}", authority.host()),
        None => rest == authority.host(),
    };
    if is_canonical && !authority.host().is_empty() { Ok(origin.to_owned()) } else { fault() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_separated_by_spaces_or_commas_and_none_is_the_default() {
        assert!(AllowedOrigins::parse("").expect("none").is_empty());
        assert!(AllowedOrigins::parse(" , ").expect("none").is_empty());
        let text = "https://shop.example, http://localhost:8080\nhttp://[::1]:1,https://xn--bcher-kva.example";
        let origins = AllowedOrigins::parse(text).expect("origins");
        for origin in
            ["https://shop.example", "http://localhost:8080", "http://[::1]:1", "https://xn--bcher-kva.example"]
        {
            assert_eq!(origins.of(&&[("origin", origin)][..]).as_deref(), Some(origin));
        }
        assert_eq!(origins.of(&&[("origin", "http://shop.example")][..]), None);
        assert_eq!(origins.of(&&[][..]), None);
    }

    #[test]
    fn localhost_is_every_origin_of_this_machine() {
        let origins = AllowedOrigins::parse("localhost https://shop.example").expect("origins");
        let is_allowed = |origin: &str| origins.of(&&[("origin", origin)][..]).is_some();
        for origin in [
            "http://localhost:5173",
            "http://localhost",
            "http://127.0.0.1:8080",
            "http://[::1]:1",
            "https://shop.example",
        ] {
            assert!(is_allowed(origin), "{origin}");
        }
        for origin in ["http://localhost.evil.example", "http://127.0.0.2:1", "https://evil.example", "null"] {
            assert!(!is_allowed(origin), "{origin}");
        }
    }

    #[test]
    fn what_a_browser_never_sends_as_an_origin_is_refused() {
        for text in [
            "*",
            "null",
            "shop.example",
            "https://",
            "https://*",
            "https://*.shop.example",
            "https://shop.example/",
            "https://shop.example/pages",
            "https://shop.example?x",
            "https://shop.example#x",
            "https://user@shop.example",
            "https://Shop.example",
            "HTTPS://shop.example",
            "https://shop.example:443",
            "http://shop.example:80",
            "https://shop.example:",
            "https://shop.example:08443",
            "https://shop.example:99999",
            "https://:8443",
            "ftp://shop.example",
            "file://",
            "https://shop.example;https://other.example",
            "https://good.example https://shop.example/",
        ] {
            assert!(AllowedOrigins::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_response_that_no_other_origin_may_read_varies_by_origin() {
        let page = Response::empty(200).header("vary", "accept-encoding");
        for (response, vary) in [(Response::empty(200), "origin"), (page, "accept-encoding, origin")] {
            let headers = add_headers(response, None).headers;
            assert_eq!(headers, [("vary", std::borrow::Cow::from(vary))]);
        }
    }
}
