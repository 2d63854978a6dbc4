//! An HTTP client with a bounded number of connections.
//!
//! Thousands of buyers share a few hundred sockets.

use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, RETRY_AFTER};
use http::{Method, Request, Uri};
use http_body_util::{BodyExt, Full};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::sync::Semaphore;

use crate::wire::Problem;

/// A client for one app.
pub struct Client {
    base_url: String,
    inner: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    permits: Semaphore,
    timeout: Duration,
}

/// One request, cheap to clone and to send again.
#[derive(Debug, Clone)]
pub struct Call {
    /// The HTTP method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// Value of the `Authorization` header.
    pub authorization: Option<HeaderValue>,
    /// Value of `If-None-Match`; the app may then return `304`.
    pub etag: Option<HeaderValue>,
    /// JSON, or empty.
    pub body: Bytes,
}

/// A response of the app.
#[derive(Debug, Clone)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// Value of `Retry-After`.
    pub retry_after: Option<Duration>,
    /// Value of `ETag`.
    pub etag: Option<HeaderValue>,
    /// The whole body.
    pub body: Bytes,
}

/// No response arrived. Only `ConnectFailed` guarantees that the request did not reach the app.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// No connection could be opened.
    #[error("no connection")]
    ConnectFailed,
    /// The connection closed before the response was complete.
    #[error("connection lost")]
    ConnectionLost,
    /// No response within the timeout.
    #[error("timeout")]
    Timeout,
}

impl Client {
    /// Creates a client for the app at `base_url` with at most `connections` connections.
    /// `timeout` limits each request, including opening a connection, but not the wait for a free one.
    pub fn new(base_url: &str, connections: usize, timeout: Duration) -> Result<Self> {
        let uri: Uri = base_url.parse().with_context(|| format!("{base_url} is not a URL"))?;
        anyhow::ensure!(
            uri.host().is_some() && matches!(uri.scheme_str(), Some("http" | "https")),
            "{base_url} is not a URL such as http://127.0.0.1:3000"
        );
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(timeout));
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(rustls::crypto::ring::default_provider())
            .context("no root certificates: install the ca-certificates package")?
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let inner = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(30))
            .pool_max_idle_per_host(connections)
            .build(connector);
        Ok(Self {
            base_url: base_url.trim_end_matches('/').to_owned(),
            inner,
            permits: Semaphore::new(connections),
            timeout,
        })
    }

    /// Sends the request once. The wait for a free connection has no limit.
    pub async fn send(&self, call: &Call) -> Result<Response, RequestError> {
        let request = self.request(call).map_err(|_| RequestError::ConnectFailed)?;
        let _permit = self.permits.acquire().await.map_err(|_| RequestError::ConnectFailed)?;
        match tokio::time::timeout(self.timeout, self.exchange(request)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(RequestError::Timeout),
        }
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Response, RequestError> {
        let response = self.inner.request(request).await.map_err(|error| {
            if error.is_connect() { RequestError::ConnectFailed } else { RequestError::ConnectionLost }
        })?;
        let (head, body) = response.into_parts();
        let body = body.collect().await.map_err(|_| RequestError::ConnectionLost)?.to_bytes();
        Ok(Response {
            status: head.status.as_u16(),
            retry_after: head
                .headers
                .get(RETRY_AFTER)
                .and_then(|value| value.to_str().ok()?.trim().parse().ok())
                .map(Duration::from_secs),
            etag: head.headers.get(ETAG).cloned(),
            body,
        })
    }

    fn request(&self, call: &Call) -> http::Result<Request<Full<Bytes>>> {
        let mut request = Request::builder().method(&call.method).uri(format!("{}{}", self.base_url, call.path));
        if let Some(value) = &call.authorization {
            request = request.header(AUTHORIZATION, value);
        }
        if let Some(value) = &call.etag {
            request = request.header(IF_NONE_MATCH, value);
        }
        if !call.body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        request.body(Full::new(call.body.clone()))
    }
}

impl Call {
    /// A `GET`.
    pub fn get(path: impl Into<String>) -> Self {
        Self { method: Method::GET, path: path.into(), authorization: None, etag: None, body: Bytes::new() }
    }

    /// A `POST` with a JSON body; `null` sends no body.
    pub fn post(path: impl Into<String>, body: &serde_json::Value) -> Self {
        Self { method: Method::POST, body: json_body(body), ..Self::get(path) }
    }

    /// A `PUT` with a JSON body; `null` sends no body.
    pub fn put(path: impl Into<String>, body: &serde_json::Value) -> Self {
        Self { method: Method::PUT, body: json_body(body), ..Self::get(path) }
    }

    /// Sets `Authorization` to a value from [`bearer`].
    pub fn with_authorization(mut self, authorization: &HeaderValue) -> Self {
        self.authorization = Some(authorization.clone());
        self
    }
}

impl Response {
    /// The stable `code` of a problem document; `None` for any other body.
    pub fn code(&self) -> Option<String> {
        if self.status < 400 {
            return None;
        }
        serde_json::from_slice::<Problem>(&self.body).ok()?.code
    }

    /// Status and code, such as `202` or `409 sold_out`. The tables count responses by it.
    pub fn label(&self) -> String {
        match self.code() {
            Some(code) => format!("{} {code}", self.status),
            None => self.status.to_string(),
        }
    }

    /// Parses the body as JSON.
    pub fn parse<T: serde::de::DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(&self.body).with_context(|| {
            let text = String::from_utf8_lossy(&self.body);
            format!("not the answer that the contract promises: {}", truncate(&text))
        })
    }

    /// Returns an error with the problem's detail unless the status is 2xx. `what` names the request.
    pub fn error_for_status(self, what: &str) -> Result<Self> {
        if (200..300).contains(&self.status) {
            return Ok(self);
        }
        let detail = serde_json::from_slice::<Problem>(&self.body)
            .ok()
            .and_then(|problem| problem.detail)
            .unwrap_or_else(|| truncate(&String::from_utf8_lossy(&self.body)).to_owned());
        anyhow::bail!("{what} was answered {}: {detail}", self.label())
    }
}

/// `Bearer <token>` as a header value.
pub fn bearer(token: &str) -> Result<HeaderValue> {
    let mut value =
        HeaderValue::from_str(&format!("Bearer {token}")).context("a token has characters that no header may carry")?;
    value.set_sensitive(true);
    Ok(value)
}

fn json_body(body: &serde_json::Value) -> Bytes {
    if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) }
}

fn truncate(text: &str) -> &str {
    let end = text.char_indices().nth(300).map_or(text.len(), |(index, _)| index);
    &text[..end]
}
