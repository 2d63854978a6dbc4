//! A small HTTP client for the development tools' own requests to the app.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use serde_json::Value;
use ureq::{
    Agent,
    http::{Request, Response},
    tls::{Certificate, RootCerts, TlsConfig},
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
    /// The path of the next page, of a header `link`.
    pub next: Option<String>,
}

impl Client {
    /// Creates a client for the app at `base` (`http://host:port`), with a timeout for each request.
    pub fn new(base: &str, timeout: Duration) -> Self {
        let mut config = Agent::config_builder().timeout_global(Some(timeout)).http_status_as_error(false);
        if base.starts_with("https:") {
            config = config.tls_config(TlsConfig::builder().root_certs(machines_authorities()).build());
        }
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

/// The authorities that the machine trusts.
fn machines_authorities() -> RootCerts {
    // An error means that another client has installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let found = rustls_native_certs::load_native_certs().certs;
    RootCerts::Specific(Arc::new(found.iter().map(|found| Certificate::from_der(found).to_owned()).collect()))
}

fn read_response(url: &str, response: Result<Response<ureq::Body>, ureq::Error>) -> Result<HttpResponse> {
    let mut response = response.with_context(|| format!("{url} does not answer"))?;
    let link = response.headers().get("link").and_then(|link| link.to_str().ok());
    let next = link.and_then(|link| link.strip_prefix('<')?.strip_suffix(">; rel=\"next\"")).map(str::to_owned);
    let body = response.body_mut().read_to_string().with_context(|| format!("{url} broke off its answer"))?;
    Ok(HttpResponse { status: response.status().as_u16(), body, next })
}
