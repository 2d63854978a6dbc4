//! The network, as far as a sale needs it: one HTTP request, one answer, and never the belief that silence means no.

use std::future::Future;

use domain::time::{Millis, parse_retry_after};

/// A request to somebody else's server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// `GET` or `POST`.
    pub method: &'static str,
    /// Where to.
    pub url: String,
    /// Its headers.
    pub headers: Vec<(&'static str, String)>,
    /// Its body; empty for none.
    pub body: String,
    /// How long to wait for the answer, in milliseconds.
    pub timeout_ms: i64,
}

/// What the server answered. Redirects are answers like any other: nobody follows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpResponse {
    /// Its status.
    pub status: u16,
    /// Its headers, their names in lower case.
    pub headers: Vec<(String, String)>,
    /// Its body, or as much as is read of one.
    pub body: Vec<u8>,
}

/// No answer came: whether the request was received is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no answer: {0}")]
pub struct NoResponse(pub String);

/// Something that sends requests.
pub trait HttpClient {
    /// Sends one request and waits for the answer.
    fn send(&self, request: HttpRequest) -> impl Future<Output = Result<HttpResponse, NoResponse>>;
}

impl HttpResponse {
    /// A header's text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Whether the server did what it was asked.
    #[must_use]
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// How long the server asks to be left alone, in milliseconds.
    #[must_use]
    pub fn retry_after_ms(&self, now: Millis) -> Option<i64> {
        self.header("retry-after").and_then(|text| parse_retry_after(text, now))
    }
}
