//! Reads HTTP requests and sends responses.
//!
//! Spin does not set `TCP_NODELAY` on accepted sockets. If the body is not ready when the handler returns, head and
//! body are sent in two packets, and the second waits up to 40 ms for the acknowledgement of the first. To avoid this
//! delay, [`serve`] sets `content-length`, converts the response and yields once before it returns: the body is being
//! written by then.

use std::{cell::Cell, fmt::Write as _};

use bytes::Bytes;
use domain::{
    problem::{Code, Problem},
    routes::{self, Endpoint},
};
use spin_sdk::{
    http::{FullBody, HeaderMap, IntoResponse, Method, Request as SpinRequest},
    wasip3::http::types::{ErrorCode, Response as WasiResponse},
};
use workflows::StoreError;

use crate::{clock, log};

/// The largest request body, in bytes; a larger one is refused with `413`.
pub const MAX_BODY_BYTES: usize = 16 * 1024;

/// A request with its complete body.
pub struct Request {
    /// The method.
    pub method: Method,
    /// The path, without the query and not percent-decoded.
    pub path: String,
    /// The query, without the question mark and not percent-decoded.
    pub query: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The body; at most [`MAX_BODY_BYTES`].
    pub body: Bytes,
    /// The id of this request in the log and in `x-request-id`.
    pub request_id: String,
}

impl Request {
    /// Returns a header's first value; `None` if it is missing or not ASCII.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns the token of `Authorization: Bearer`.
    #[must_use]
    pub fn bearer(&self) -> Option<&str> {
        let (scheme, token) = self.header("authorization")?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    }

    /// Returns whether `If-None-Match` (RFC 9110, 13.1.2) is `*` or lists `etag`, by weak comparison.
    #[must_use]
    pub fn matches_etag(&self, etag: &str) -> bool {
        self.headers
            .get_all("if-none-match")
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|list| list.split(','))
            .map(str::trim)
            .any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
    }

    /// Returns the request's endpoint and the values of the path's parameters, as [`routes::find`] does.
    ///
    /// # Errors
    /// `not_found` or `method_not_allowed`.
    pub fn route<E: Endpoint>(&self) -> Result<(E, [&str; 2]), Problem> {
        routes::find(&self.method, &self.path)
    }

    /// Returns a query parameter's first value, not percent-decoded.
    #[must_use]
    pub fn query_param(&self, name: &str) -> Option<&str> {
        self.query.split('&').find_map(|pair| pair.split_once('=').filter(|(key, _)| *key == name).map(|(_, v)| v))
    }
}

/// A response to send.
#[derive(Debug, Clone)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The headers, except `content-length` and `x-request-id`, which [`serve`] adds.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Bytes,
}

impl Response {
    /// Builds a JSON response with `cache-control: no-store`.
    pub fn json(status: u16, document: &impl serde::Serialize) -> Self {
        let body = serde_json::to_vec(document).unwrap_or_default();
        Self { status, headers: vec![("content-type", "application/json".to_owned())], body: body.into() }
            .header("cache-control", "no-store")
    }

    /// Builds a response without a body.
    #[must_use]
    pub fn empty(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Bytes::new() }
    }

    /// Builds a response with a body of the given content type.
    pub fn with_body(status: u16, content_type: &str, body: impl Into<Bytes>) -> Self {
        Self { status, headers: vec![("content-type", content_type.to_owned())], body: body.into() }
    }

    /// Sets a header and replaces one of the same name.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value.into()));
        self
    }
}

impl From<Problem> for Response {
    fn from(problem: Problem) -> Self {
        let mut response = Response::with_body(problem.code.status(), "application/problem+json", problem.to_json())
            .header("cache-control", "no-store");
        if let Some(seconds) = problem.retry_after {
            response = response.header("retry-after", seconds.to_string());
        }
        if problem.code == Code::Unauthenticated {
            response = response.header("www-authenticate", "Bearer");
        }
        for (name, value) in problem.headers {
            response = response.header(name, value);
        }
        response
    }
}

/// The error of a request handler.
///
/// Use `Problem` for what a client can act on. `Store` and `Unexpected` are logged once, in this module, and their text
/// is never sent: an unavailable store becomes `not_ready`, anything else `internal`.
#[derive(Debug)]
pub enum ApiError {
    /// A refusal with a code.
    Problem(Box<Problem>),
    /// Redis or the ledger failed.
    Store(StoreError),
    /// A bug or a misconfiguration, described for the log.
    Unexpected(String),
}

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        ApiError::Problem(Box::new(problem))
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        ApiError::Store(error)
    }
}

impl ApiError {
    fn into_problem(self, request_id: &str) -> Problem {
        let (event, text, problem) = match self {
            ApiError::Problem(problem) => return *problem,
            ApiError::Store(error) => {
                let event = if error.is_unavailable() { "store unavailable" } else { "store error" };
                (event, error.to_string(), error.to_problem())
            }
            ApiError::Unexpected(text) => ("unexpected", text, Problem::internal()),
        };
        log::error(event, &[("because", text.into()), ("request_id", request_id.into())]);
        problem
    }
}

/// Returns the `not_found` error for an unknown resource.
#[must_use]
pub fn not_found(detail: &str) -> ApiError {
    Problem::new(Code::NotFound, detail).into()
}

/// Percent-decodes one path segment. Bytes that are not UTF-8 become U+FFFD.
#[must_use]
pub fn percent_decode(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Reads a request, calls `handle` and sends its response. An [`ApiError`] becomes a problem document.
///
/// A `HEAD` request is handled like `GET`: the server omits the body and keeps `content-length`.
///
/// # Errors
/// Only if the response cannot be built, for example because a header's value is invalid.
pub async fn serve(
    request: SpinRequest,
    handle: impl AsyncFnOnce(&Request) -> Result<Response, ApiError>,
) -> Result<WasiResponse, ErrorCode> {
    let (parts, body) = request.into_parts();
    let request_id = request_id(&parts.headers);
    let content_length = parts.headers.get("content-length").and_then(|v| v.to_str().ok()?.parse::<usize>().ok());
    // A request from another component has a body but no `content-length`.
    let has_body = content_length.map_or(!matches!(parts.method, Method::GET | Method::HEAD), |length| length > 0);
    let body = match has_body {
        false => Ok(Bytes::new()),
        true => read_body(body, content_length).await,
    };
    let response = match body {
        Ok(body) => {
            let request = Request {
                method: parts.method,
                path: parts.uri.path().to_owned(),
                query: parts.uri.query().unwrap_or_default().to_owned(),
                headers: parts.headers,
                body,
                request_id,
            };
            let response =
                handle(&request).await.unwrap_or_else(|error| error.into_problem(&request.request_id).into());
            return into_wasi_response(response, &request.request_id).await;
        }
        Err(problem) => Response::from(problem),
    };
    into_wasi_response(response, &request_id).await
}

/// Converts a response as the module's documentation describes.
async fn into_wasi_response(response: Response, request_id: &str) -> Result<WasiResponse, ErrorCode> {
    let mut builder = http::Response::builder()
        .status(response.status)
        .header("content-length", response.body.len())
        .header("x-request-id", request_id);
    for (name, value) in response.headers {
        builder = builder.header(name, value);
    }
    let response = builder
        .body(FullBody::new(response.body))
        .map_err(|error| ErrorCode::InternalError(Some(error.to_string())))?
        .into_response()?;
    spin_sdk::wit_bindgen::yield_async().await;
    Ok(response)
}

async fn read_body<B>(body: B, content_length: Option<usize>) -> Result<Bytes, Problem>
where
    B: http_body_util::BodyExt<Data = Bytes> + Unpin,
{
    let too_large = || Problem::new(Code::PayloadTooLarge, "A body has at most 16 KiB.");
    if content_length.is_some_and(|length| length > MAX_BODY_BYTES) {
        return Err(too_large());
    }
    let mut body = body;
    let mut bytes = Vec::with_capacity(content_length.unwrap_or_default());
    while let Some(frame) = body.frame().await {
        let truncated = |_| Problem::new(Code::InvalidRequest, "The body ended before its time.");
        if let Ok(data) = frame.map_err(truncated)?.into_data() {
            bytes.extend_from_slice(&data);
        }
        if bytes.len() > MAX_BODY_BYTES {
            return Err(too_large());
        }
    }
    Ok(bytes.into())
}

/// Returns the client's `x-request-id` if it is valid, else a new id: a random number of the instance and a counter.
fn request_id(headers: &HeaderMap) -> String {
    thread_local! {
        static COUNT: Cell<u64> = const { Cell::new(0) };
        static INSTANCE: u64 = {
            let mut bytes = [0; 8];
            match getrandom::fill(&mut bytes) {
                Ok(()) => u64::from_le_bytes(bytes),
                Err(_) => clock::now().0.unsigned_abs(),
            }
        };
    }
    let sent = headers.get("x-request-id").and_then(|value| value.to_str().ok());
    let is_valid =
        |id: &&str| (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if let Some(id) = sent.filter(is_valid) {
        return id.to_owned();
    }
    let count = COUNT.get() + 1;
    COUNT.set(count);
    let mut id = String::with_capacity(24);
    let _ = write!(id, "{:016x}-{count}", INSTANCE.with(|instance| *instance));
    id
}
