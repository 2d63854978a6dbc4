//! HTTP: a request read, an answer sent.
//!
//! Accepted sockets have no `TCP_NODELAY`: a response whose body is not ready when it is returned leaves in two packets
//! and waits 40 ms for the first one's acknowledgement. So [`serve`] sets `content-length`, converts, and yields once,
//! by which time the body is being written.

use std::{cell::Cell, fmt::Write as _};

use bytes::Bytes;
use domain::{
    problem::{Code, Problem},
    time::Millis,
};
use spin_sdk::{
    http::{FullBody, HeaderMap, IntoResponse, Method, Request as SpinRequest},
    wasip3::http::types::{ErrorCode, Response as WasiResponse},
};
use workflows::StoreError;

use crate::{clock, log};

/// The largest body that is read, in bytes.
pub const MAX_BODY_BYTES: usize = 16 * 1024;

/// A request, read to its end.
pub struct Request {
    /// Its method.
    pub method: Method,
    /// Its path, without the query.
    pub path: String,
    /// Its query, without the question mark.
    pub query: String,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
    /// What the log and `x-request-id` call it.
    pub request_id: String,
}

impl Request {
    /// A header's text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The token of `Authorization: Bearer`.
    #[must_use]
    pub fn bearer(&self) -> Option<&str> {
        let (scheme, token) = self.header("authorization")?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    }

    /// Whether the client has what `etag` names: `If-None-Match` (RFC 9110, 13.1.2), compared weakly, any of a list, or
    /// `*`.
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

    /// The parts of the path.
    #[must_use]
    pub fn segments(&self) -> Vec<&str> {
        self.path.split('/').filter(|part| !part.is_empty()).collect()
    }

    /// A parameter of the query, as it stands there.
    #[must_use]
    pub fn query_param(&self, name: &str) -> Option<&str> {
        self.query.split('&').find_map(|pair| pair.split_once('=').filter(|(key, _)| *key == name).map(|(_, v)| v))
    }
}

/// A response to be sent.
#[derive(Debug, Clone)]
pub struct Response {
    /// Its status.
    pub status: u16,
    /// Its headers, apart from those that every response has.
    pub headers: Vec<(&'static str, String)>,
    /// Its body.
    pub body: Bytes,
}

impl Response {
    /// A JSON document.
    pub fn json(status: u16, document: &impl serde::Serialize) -> Self {
        let body = serde_json::to_vec(document).unwrap_or_default();
        Self { status, headers: vec![("content-type", "application/json".to_owned())], body: body.into() }
            .header("cache-control", "no-store")
    }

    /// A response without a body.
    #[must_use]
    pub fn empty(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Bytes::new() }
    }

    /// A text of some type.
    pub fn text(status: u16, content_type: &str, body: impl Into<Bytes>) -> Self {
        Self { status, headers: vec![("content-type", content_type.to_owned())], body: body.into() }
    }

    /// The same with a header, in place of one of that name.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value.into()));
        self
    }
}

impl From<Problem> for Response {
    fn from(problem: Problem) -> Self {
        let mut response = Response::text(problem.code.status(), "application/problem+json", problem.to_json())
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

/// Why there is no good answer.
///
/// `Problem` is for what a client can act on. `Store` and `Unexpected` are logged once, here, and never answered in
/// detail: a store that is away is `not_ready`, anything else `internal`.
#[derive(Debug)]
pub enum ApiError {
    /// A refusal with a code.
    Problem(Box<Problem>),
    /// A store that did not do what it was asked.
    Store(StoreError),
    /// What should not happen.
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
            ApiError::Store(
                error @ (StoreError::RedisUnavailable(_) | StoreError::LedgerUnavailable(_) | StoreError::Rebuilding),
            ) => {
                let detail = "A store is not reachable. Nothing is lost: ask again, for an order with the same ticket.";
                ("store unavailable", error.to_string(), Problem::new(Code::NotReady, detail).retry_after(2))
            }
            ApiError::Store(error) => ("store error", error.to_string(), internal()),
            ApiError::Unexpected(text) => ("unexpected", text, internal()),
        };
        log::error(event, &[("because", text.into()), ("request_id", request_id.into())]);
        problem
    }
}

fn internal() -> Problem {
    Problem::new(Code::Internal, "The log has the cause under this x-request-id.")
}

/// No such route, or nothing there.
#[must_use]
pub fn not_found(detail: &str) -> ApiError {
    Problem::new(Code::NotFound, detail).into()
}

/// The route has no such method; `allow` lists those that it has, apart from `HEAD`, which comes with `GET`.
#[must_use]
pub fn method_not_allowed(allow: &str) -> ApiError {
    let allow = allow.replace("GET", "GET, HEAD");
    let mut problem = Problem::new(Code::MethodNotAllowed, format!("This route takes {allow}."));
    problem.headers.push(("allow", allow));
    problem.into()
}

/// `Retry-After` for a wait in milliseconds.
#[must_use]
pub fn retry_after(ms: i64) -> String {
    Millis(0).seconds_until(Millis(ms), 1).to_string()
}

/// Reads a request, lets `handle` answer it, and sends the answer. An error never escapes.
///
/// A `HEAD` is handled as a `GET`: the server that sends its answer leaves the body out and keeps its length.
///
/// # Errors
/// None of ours: what the type asks for is what the engine wants.
pub async fn serve(
    request: SpinRequest,
    handle: impl AsyncFnOnce(&Request) -> Result<Response, ApiError>,
) -> Result<WasiResponse, ErrorCode> {
    let (parts, body) = request.into_parts();
    let request_id = request_id(&parts.headers);
    let content_length = parts.headers.get("content-length").and_then(|v| v.to_str().ok()?.parse::<usize>().ok());
    // A request of another component has a body without saying how long it is.
    let has_body = content_length.map_or(!matches!(parts.method, Method::GET | Method::HEAD), |length| length > 0);
    let body = match has_body {
        false => Ok(Bytes::new()),
        true => read_body(body, content_length).await,
    };
    let response = match body {
        Ok(body) => {
            let request = Request {
                method: if parts.method == Method::HEAD { Method::GET } else { parts.method },
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

/// Sends an answer the one good way.
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

/// The request id that came, if it is one, else one of our own: random per instance, counted within it.
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
