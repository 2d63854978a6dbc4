//! Reads HTTP requests and sends responses, on WASI's own types: a header is copied only when a handler asks for it, and
//! the headers of a response are handed over in one call.
//!
//! Spin does not set `TCP_NODELAY` on accepted sockets. If the body is not ready when the handler returns, head and
//! body are sent in two packets, and the second waits up to 40 ms for the acknowledgement of the first. To avoid this
//! delay, [`serve`] sets `content-length` and starts to write the body before it returns the response. Spin may still poll
//! the body too early: the receiver then needs the setting of `deploy/self-hosted/sysctl.conf`.

use std::{
    cell::RefCell,
    collections::HashMap,
    future::poll_fn,
    mem::{Discriminant, discriminant},
    pin::Pin,
    task::Poll,
    time::Duration,
};

use domain::{
    http::{
        cors,
        problem::{Code, Problem},
        request::{Headers, RequestIds, content_length},
        routes::Route,
    },
    log_limit::LogLimit,
};
use http::Method;
use spin_sdk::{
    wasip3::{
        http::types::{ErrorCode, Fields, Request as WasiRequest, Response as WasiResponse},
        wit_future, wit_stream,
    },
    wit_bindgen::{self, StreamResult},
};
use stores::StoreError;

pub use domain::http::response::Response;

use crate::{clock, counts, log, random, settings, timeout::with_timeout};

/// How long a body may take. A client that sends it slowly occupies the instance, which serves few requests at once.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// How much of a body without `content-length` is read at once, in bytes.
const READ_BYTES: usize = 4 * 1024;

/// A request with its complete body.
pub type Request = domain::http::request::Request<WasiHeaders>;

/// The headers of a request. Each read is a call to the engine.
pub struct WasiHeaders(Fields);

impl Headers for WasiHeaders {
    fn values(&self, name: &str) -> Vec<Vec<u8>> {
        self.0.get(name)
    }
}

/// The error of a request handler.
///
/// Use `Problem` for what a client can act on. `Store` and `Unexpected` are logged once, in this module, and their text
/// is never sent: an unavailable store becomes `not_ready`, anything else `internal`. Unavailable stores are logged once a
/// second by an instance.
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
        let (event, text, number, problem) = match self {
            ApiError::Problem(problem) => return *problem,
            ApiError::Store(error) if error.is_unavailable() => {
                let Some(number) = count_unavailable(&error) else { return error.to_problem() };
                ("store unavailable", error.to_string(), number, error.to_problem())
            }
            ApiError::Store(error) => ("store error", error.to_string(), 1, error.to_problem()),
            ApiError::Unexpected(text) => ("unexpected", text, 1, Problem::internal()),
        };
        let fields = [("because", text.into()), ("request_id", request_id.into()), ("number", number.into())];
        log::error(event, &fields);
        problem
    }
}

/// Counts a request that failed because a store is unavailable. Returns the number of such requests since the last line,
/// this one too, if a line is due: one a second for each kind of error, however many requests fail.
fn count_unavailable(error: &StoreError) -> Option<u64> {
    thread_local! {
        static LIMITS: RefCell<HashMap<Discriminant<StoreError>, LogLimit>> = RefCell::default();
    }
    LIMITS.with_borrow_mut(|limits| {
        limits.entry(discriminant(error)).or_insert_with(|| LogLimit::new(1_000)).count(clock::now())
    })
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

/// Decodes a query parameter as forms encode it (`application/x-www-form-urlencoded`).
#[must_use]
pub fn query_decode(text: &str) -> String {
    percent_decode(&text.replace('+', " "))
}

/// How a function serves requests.
#[derive(Debug, Clone, Copy)]
pub struct Service {
    /// Pages of the origins in the variable `cors_origins`, which the component needs, may call its routes below this path.
    pub cors_below: Option<&'static str>,
    /// The most bytes of a body.
    pub max_body_bytes: usize,
    /// Whether requests are counted, for which the component needs Redis.
    pub counts: bool,
}

impl Default for Service {
    fn default() -> Self {
        Self { cors_below: None, max_body_bytes: 16 * 1024, counts: true }
    }
}

/// Exports a function `async |&Request| -> Result<Response, ApiError>` as the HTTP handler of the component, with fields of
/// [`Service`](crate::http::Service).
#[macro_export]
macro_rules! http_service {
    ($handler:expr $(, $field:ident = $value:expr)*) => {
        struct HttpService;

        impl $crate::wasip3::exports::http::handler::Guest for HttpService {
            async fn handle(
                request: $crate::wasip3::http::types::Request,
            ) -> Result<$crate::wasip3::http::types::Response, $crate::wasip3::http::types::ErrorCode> {
                #[allow(clippy::needless_update, reason = "it may name all fields")]
                let service = $crate::http::Service { $($field: $value,)* ..Default::default() };
                $crate::http::serve(request, service, $handler).await
            }
        }

        $crate::wasip3::http::service::export!(HttpService);
    };
}

/// Reads a request, calls `handle` and returns its response. An [`ApiError`] becomes a problem document.
///
/// A `HEAD` request is handled like `GET`: the response has the same headers, `content-length` too, and no body.
///
/// Below the path `cors_below`, pages of the allowed origins may read every response, and preflights are answered before
/// anything else is read.
///
/// Counts each response, and measures some requests (G20).
///
/// # Errors
/// Only if the method or a header of the response is invalid.
pub async fn serve(
    request: WasiRequest,
    service: Service,
    handle: impl AsyncFnOnce(&Request) -> Result<Response, ApiError>,
) -> Result<WasiResponse, ErrorCode> {
    let start = if service.counts { counts::start_of_request() } else { None };
    let (route, response, request_id, is_head) = respond(request, service, handle).await?;
    if service.counts {
        counts::end_of_request(route, &response, start);
    }
    into_wasi_response(response, request_id, is_head).await
}

/// Returns the route of a request, its response, its id, and whether the body is left out.
async fn respond(
    request: WasiRequest,
    Service { cors_below, max_body_bytes, .. }: Service,
    handle: impl AsyncFnOnce(&Request) -> Result<Response, ApiError>,
) -> Result<(Option<&'static Route>, Response, String, bool), ErrorCode> {
    let method = Method::try_from(request.get_method()).map_err(|_| ErrorCode::HttpRequestMethodInvalid)?;
    let target = request.get_path_with_query().unwrap_or_default();
    let headers = WasiHeaders(request.get_headers());
    let request_id = request_id(&headers);
    let is_head = method == Method::HEAD;
    let is_shared = cors_below.is_some_and(|path| target.starts_with(path));
    let origins = if is_shared { settings::load(settings::ALLOWED_ORIGINS).await.map(Some) } else { Ok(None) };
    let shared_with = match origins {
        Ok(origins) => origins.filter(|origins| !origins.is_empty()).map(|origins| origins.of(&headers)),
        Err(problem) => return Ok((None, problem.into(), request_id, is_head)),
    };
    if let Some(Some(origin)) = &shared_with
        && let Some(response) = cors::preflight(&method, &headers)
    {
        let response = cors::add_headers(response, Some(origin.clone()));
        return Ok((None, response, request_id, is_head));
    }
    let body = match method {
        Method::GET | Method::HEAD => Ok(Vec::new()),
        _ => with_timeout(BODY_TIMEOUT, read_body(request, content_length(&headers), max_body_bytes))
            .await
            .unwrap_or_else(|| Err(Problem::new(Code::InvalidRequest, "The body did not arrive within ten seconds."))),
    };
    let (route, response, request_id): (_, Response, _) = match body {
        Ok(body) => {
            let request = Request::new(method, target, headers, body, request_id);
            let result = handle(&request).await;
            let response = result.unwrap_or_else(|error| error.into_problem(&request.request_id).into());
            (request.found_route(), response, request.request_id)
        }
        Err(problem) => (None, problem.into(), request_id),
    };
    let response = match shared_with {
        Some(origin) => cors::add_headers(response, origin),
        None => response,
    };
    Ok((route, response, request_id, is_head))
}

/// Reads the body, without a copy if `content_length` announces its size. A request from another component has a body
/// but no `content-length`.
async fn read_body(request: WasiRequest, content_length: Option<usize>, max_bytes: usize) -> Result<Vec<u8>, Problem> {
    let too_large = || Problem::new(Code::PayloadTooLarge, format!("A body has at most {} KiB.", max_bytes / 1024));
    match content_length {
        Some(0) => return Ok(Vec::new()),
        Some(length) if length > max_bytes => return Err(too_large()),
        _ => {}
    }
    // When its writer is dropped, the engine learns that this function read the body without an error of its own.
    let (_result_writer, result) = wit_future::new(|| Ok(()));
    let (mut stream, end) = WasiRequest::consume_body(request, result);
    let mut body = Vec::with_capacity(content_length.unwrap_or(READ_BYTES));
    while Some(body.len()) != content_length {
        if body.len() == body.capacity() {
            body.reserve(READ_BYTES);
        }
        let result;
        (result, body) = stream.read(body).await;
        if body.len() > max_bytes {
            return Err(too_large());
        }
        if result == StreamResult::Dropped {
            if content_length.is_some() || end.await.is_err() {
                return Err(Problem::new(Code::InvalidRequest, "The body ended before its time."));
            }
            break;
        }
    }
    Ok(body)
}

/// Converts a response, and starts to write its body.
async fn into_wasi_response(response: Response, request_id: String, is_head: bool) -> Result<WasiResponse, ErrorCode> {
    let status = response.status;
    let (lines, body) = response.into_lines_and_body(request_id);
    let headers = Fields::from_list(&lines).map_err(|error| ErrorCode::InternalError(Some(error.to_string())))?;
    // When its writer is dropped, the engine learns that there are no trailers.
    let (trailers_writer, trailers) = wit_future::new(|| Ok(None));
    let contents = if is_head || body.is_empty() {
        None
    } else {
        let (mut writer, contents) = wit_stream::new();
        start(Box::pin(async move {
            writer.write_all(body).await;
            drop(writer);
            drop(trailers_writer);
        }))
        .await;
        Some(contents)
    };
    let (response, _transmission) = WasiResponse::new(headers, contents, trailers);
    response.set_status_code(status).map_err(|()| ErrorCode::InternalError(Some(format!("status {status}"))))?;
    Ok(response)
}

/// Runs `work` in the same invocation, after the response. What an engine that ends it early leaves undone, a sweep does.
pub fn after_response(work: impl Future<Output = ()> + 'static) {
    wit_bindgen::spawn(Box::pin(work));
}

/// Polls a task once, and lets it run on beside the caller if it is not done.
async fn start(mut task: Pin<Box<dyn Future<Output = ()>>>) {
    if poll_fn(|context| Poll::Ready(task.as_mut().poll(context))).await.is_pending() {
        wit_bindgen::spawn(task);
    }
}

/// Returns the client's id of the request, or a new one.
fn request_id(headers: &WasiHeaders) -> String {
    thread_local! {
        static IDS: RefCell<RequestIds> = RefCell::new(RequestIds::new(u64::from_le_bytes(random::bytes())));
    }
    IDS.with_borrow_mut(|ids| ids.id(headers))
}
