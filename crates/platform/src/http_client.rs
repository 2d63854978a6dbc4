//! Sends HTTP requests through Spin to the hosts that `allowed_outbound_hosts` lists.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use spin_sdk::{
    http::{FullBody, send},
    wasip3::{
        http::types::RequestOptions,
        http_compat::{RequestOptionsExtension, Response},
    },
};
use stores::http_client::{HttpClient, HttpRequest, HttpResponse, NoResponse};

use crate::{ledger, timeout::with_timeout};

/// The size in bytes at which reading a response body stops; the rest is dropped.
const MAX_BODY_BYTES: usize = 256 * 1024;

/// Spin's outbound HTTP client. It does not follow redirects.
#[derive(Debug, Clone, Copy, Default)]
pub struct SpinHttpClient;

impl HttpClient for SpinHttpClient {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, NoResponse> {
        ledger::close_idle_connection();
        let timeout_ms = request.timeout_ms;
        let timeout = Duration::from_millis(u64::try_from(timeout_ms).unwrap_or_default());
        let too_slow = || NoResponse(format!("it took longer than {timeout_ms} ms"));
        with_timeout(timeout, send_request(request)).await.unwrap_or_else(|| Err(too_slow()))
    }
}

/// Sends a request and reads the whole response. A server that sends a byte now and then ends no timeout of the engine,
/// so the caller limits the total time.
async fn send_request(request: HttpRequest) -> Result<HttpResponse, NoResponse> {
    let no_response = |error: &dyn std::fmt::Display| NoResponse(error.to_string());
    let mut builder = http::Request::builder().method(request.method).uri(&request.url);
    for (name, value) in &request.headers {
        builder = builder.header(*name, value);
    }
    if !request.body.is_empty() {
        builder = builder.header("content-length", request.body.len());
    }
    let request = builder
        .extension(RequestOptionsExtension(options(request.timeout_ms)))
        .body(FullBody::new(Bytes::from(request.body)))
        .map_err(|error| no_response(&error))?;
    let response = send(request).await.map_err(|error| no_response(&error))?;
    let status = response.status().as_u16();
    let headers = response.headers().iter();
    let headers = headers.filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned())));
    Ok(HttpResponse { status, headers: headers.collect(), body: read_body(response).await? })
}

/// Applies the timeout to each step, so that the engine ends what it limits itself: connecting, the first byte, and the
/// pause between bytes.
fn options(timeout_ms: i64) -> RequestOptions {
    let nanoseconds = u64::try_from(timeout_ms).unwrap_or_default().saturating_mul(1_000_000);
    let options = RequestOptions::new();
    // An engine that does not support one of these uses its own timeout.
    let _ = options.set_connect_timeout(Some(nanoseconds));
    let _ = options.set_first_byte_timeout(Some(nanoseconds));
    let _ = options.set_between_bytes_timeout(Some(nanoseconds));
    options
}

async fn read_body(response: Response) -> Result<Vec<u8>, NoResponse> {
    let mut body = response.into_body();
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| NoResponse(format!("the answer broke off: {error}")))?;
        if let Ok(data) = frame.into_data() {
            bytes.extend_from_slice(&data);
        }
        if bytes.len() > MAX_BODY_BYTES {
            break;
        }
    }
    Ok(bytes)
}
