//! HTTP client trait for calls to payment providers and event receivers.
//!
//! A missing response ([`NoResponse`]) leaves the outcome unknown: callers repeat the request instead of treating it as
//! failed.

use std::future::Future;

use domain::time::{Millis, parse_retry_after};

/// A request to an external server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// `GET` or `POST`.
    pub method: &'static str,
    /// The absolute URL.
    pub url: String,
    /// The request headers; names in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// The body; empty for none.
    pub body: String,
    /// Time to wait for the response, in milliseconds.
    pub timeout_ms: i64,
}

/// A response. Redirects are returned like any other status, not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpResponse {
    /// HTTP status code.
    pub status: u16,
    /// The response headers; names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, possibly truncated by the client.
    pub body: Vec<u8>,
}

/// No response arrived: whether the server received the request is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no answer: {0}")]
pub struct NoResponse(pub String);

/// An HTTP client.
pub trait HttpClient {
    /// Sends one request and waits for the response.
    fn send(&self, request: HttpRequest) -> impl Future<Output = Result<HttpResponse, NoResponse>>;
}

impl HttpResponse {
    /// Value of a header; `name` is in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Whether the status is 2xx.
    #[must_use]
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Milliseconds that `Retry-After` asks the client to wait.
    #[must_use]
    pub fn retry_after_ms(&self, now: Millis) -> Option<i64> {
        self.header("retry-after").and_then(|text| parse_retry_after(text, now))
    }
}
