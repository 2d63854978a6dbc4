//! An HTTP client with a bounded number of connections.
//!
//! Thousands of buyers share a few hundred sockets.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{
    Method,
    header::{AUTHORIZATION, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, RETRY_AFTER},
};
use reqwest::redirect::Policy;
use serde_json::Value;
use tokio::sync::Semaphore;

pub struct Client {
    base_url: String,
    inner: reqwest::Client,
    permits: Semaphore,
}

/// One request, cheap to clone and to send again.
#[derive(Debug, Clone)]
pub struct Call {
    pub method: Method,
    /// A path of the app, or a whole URL.
    pub path: String,
    pub authorization: Option<HeaderValue>,
    /// Value of `If-None-Match`; the app may then return `304`.
    pub etag: Option<HeaderValue>,
    /// JSON, or empty.
    pub body: Bytes,
}

#[derive(Debug, Clone)]
pub struct Response {
    /// When the request was sent, on a free connection.
    pub sent_at: Instant,
    pub status: u16,
    pub retry_after: Option<Duration>,
    pub etag: Option<HeaderValue>,
    pub body: Bytes,
}

/// No response arrived. Only `ConnectFailed` guarantees that the request did not reach the app.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    #[error("no connection")]
    ConnectFailed,
    /// The connection closed before the response was complete.
    #[error("connection lost")]
    ConnectionLost,
    #[error("timeout")]
    Timeout,
}

impl From<reqwest::Error> for RequestError {
    fn from(error: reqwest::Error) -> Self {
        match error {
            error if error.is_connect() || error.is_builder() => Self::ConnectFailed,
            error if error.is_timeout() => Self::Timeout,
            _ => Self::ConnectionLost,
        }
    }
}

impl Client {
    /// Creates a client for the app at `base_url` with at most `connections` connections.
    /// `timeout` limits each request, including opening a connection, but not the wait for a free one.
    pub fn new(base_url: &str, connections: usize, timeout: Duration) -> Result<Self> {
        let host = base_url.strip_prefix("http://").or_else(|| base_url.strip_prefix("https://"));
        ensure!(host.is_some_and(|host| !host.is_empty()), "{base_url} is not a URL such as http://127.0.0.1:3000");
        // An error means that another client has installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let inner = reqwest::Client::builder()
            .http1_only()
            .no_proxy()
            .redirect(Policy::none())
            .timeout(timeout)
            .pool_idle_timeout(Duration::from_secs(30))
            .pool_max_idle_per_host(connections)
            .build()
            .context("no HTTP client: is the package ca-certificates installed?")?;
        Ok(Self { base_url: base_url.trim_end_matches('/').to_owned(), inner, permits: Semaphore::new(connections) })
    }

    /// Sends the request once. The wait for a free connection has no limit.
    pub async fn send(&self, call: &Call) -> Result<Response, RequestError> {
        let url =
            if call.path.starts_with('/') { format!("{}{}", self.base_url, call.path) } else { call.path.clone() };
        let mut request = self.inner.request(call.method.clone(), url);
        for (name, value) in [(AUTHORIZATION, &call.authorization), (IF_NONE_MATCH, &call.etag)] {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        if !call.body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json").body(call.body.clone());
        }
        let _permit = self.permits.acquire().await.map_err(|_| RequestError::ConnectFailed)?;
        let sent_at = Instant::now();
        let response = request.send().await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
        Ok(Response {
            sent_at,
            status,
            retry_after: seconds.map(Duration::from_secs),
            etag: headers.get(ETAG).cloned(),
            body: response.bytes().await?,
        })
    }
}

impl Call {
    pub fn get(path: impl Into<String>) -> Self {
        Self { method: Method::GET, path: path.into(), authorization: None, etag: None, body: Bytes::new() }
    }

    /// A `POST` with a JSON body; `null` sends no body.
    pub fn post(path: impl Into<String>, body: &Value) -> Self {
        Self { method: Method::POST, body: json_body(body), ..Self::get(path) }
    }

    /// A `PUT` with a JSON body; `null` sends no body.
    pub fn put(path: impl Into<String>, body: &Value) -> Self {
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
        self.text("code").ok()
    }

    /// Whether the app may have done what was asked for, although it does not say so.
    pub fn has_uncertain_outcome(&self) -> bool {
        match self.status {
            500 | 502 | 504 => true,
            // Redis may have died between a script and its reply.
            503 => !matches!(self.code().as_deref(), Some("paused" | "overloaded")),
            _ => false,
        }
    }

    /// Status and code, such as `202` or `409 sold_out`. The tables count responses by it.
    pub fn label(&self) -> String {
        match self.code() {
            Some(code) => format!("{} {code}", self.status),
            None => self.status.to_string(),
        }
    }

    pub fn parse<T: serde::de::DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(&self.body).with_context(|| {
            let text = String::from_utf8_lossy(&self.body);
            format!("not the answer that the contract promises: {}", truncate(&text))
        })
    }

    /// A text member of the JSON body.
    pub fn text(&self, member: &str) -> Result<String> {
        let text = self.parse::<Value>()?[member].as_str().map(str::to_owned);
        text.with_context(|| format!("an answer without {member}"))
    }

    /// Returns an error with the problem's detail unless the status is 2xx. `what` names the request.
    pub fn error_for_status(self, what: &str) -> Result<Self> {
        if (200..300).contains(&self.status) {
            return Ok(self);
        }
        let detail = self.text("detail");
        let detail = detail.unwrap_or_else(|_| truncate(&String::from_utf8_lossy(&self.body)).to_owned());
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

fn json_body(body: &Value) -> Bytes {
    if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) }
}

fn truncate(text: &str) -> &str {
    let end = text.char_indices().nth(300).map_or(text.len(), |(index, _)| index);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_that_the_app_decided_is_certain() {
        let is_uncertain = |status, body: &'static str| {
            let body = Bytes::from_static(body.as_bytes());
            Response { sent_at: Instant::now(), status, retry_after: None, etag: None, body }.has_uncertain_outcome()
        };
        for (status, body) in [(500, ""), (502, ""), (503, ""), (503, r#"{"code": "not_ready"}"#), (504, "")] {
            assert!(is_uncertain(status, body), "{status} {body}");
        }
        for (status, body) in [(409, ""), (429, ""), (503, r#"{"code": "paused"}"#), (503, r#"{"code": "overloaded"}"#)]
        {
            assert!(!is_uncertain(status, body), "{status} {body}");
        }
    }
}
