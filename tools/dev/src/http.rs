//! A small HTTP client for the development tools' own requests to the app.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use ureq::{
    Agent,
    http::{Request, Response},
};

/// A client for one app.
#[derive(Clone)]
pub struct Client {
    base: String,
    agent: Agent,
}

/// A response.
#[derive(Debug, Clone)]
pub struct HttpResponse {
    /// The status code.
    pub status: u16,
    /// The body as text.
    pub body: String,
}

impl Client {
    /// Creates a client for the app at `base` (`http://host:port`), with a timeout for each request.
    pub fn new(base: &str, timeout: Duration) -> Self {
        let config = Agent::config_builder().timeout_global(Some(timeout)).http_status_as_error(false);
        Self { base: base.to_owned(), agent: config.build().into() }
    }

    /// Sends `GET path`. A response with an error status is not an `Err`.
    pub fn get(&self, path: &str) -> Result<HttpResponse> {
        let url = format!("{}{path}", self.base);
        read_response(&url, self.agent.get(&url).call())
    }

    /// Sends a request with a bearer token and, unless `body` is null, a JSON body.
    pub fn send(&self, method: &str, path: &str, token: &str, body: &Value) -> Result<HttpResponse> {
        let url = format!("{}{path}", self.base);
        let mut request =
            Request::builder().method(method).uri(&url).header("authorization", format!("Bearer {token}"));
        let text = if body.is_null() {
            String::new()
        } else {
            request = request.header("content-type", "application/json");
            body.to_string()
        };
        read_response(&url, self.agent.run(request.body(text)?))
    }
}

fn read_response(url: &str, response: Result<Response<ureq::Body>, ureq::Error>) -> Result<HttpResponse> {
    let mut response = response.with_context(|| format!("{url} does not answer"))?;
    let body = response.body_mut().read_to_string().with_context(|| format!("{url} broke off its answer"))?;
    Ok(HttpResponse { status: response.status().as_u16(), body })
}
