//! HTTP client and response assertions. Every response is checked against the common contract, and against the OpenAPI
//! document unless a proxy may have made it.

use std::{
    fmt::Display,
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use reqwest::{Client, ClientBuilder, Method, header::HeaderMap};
use serde_json::Value;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpSocket,
};

use super::OpenApi;

/// Begins a client that uses no proxy.
pub fn client_builder() -> ClientBuilder {
    // The load generator, which shares this build of reqwest, leaves the choice of the TLS library to the program.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().no_proxy()
}

/// A client for one app. Keeps connections alive.
#[derive(Clone)]
pub struct HttpClient {
    client: Client,
    base_url: String,
    tolerates_shutdown: bool,
    checks_document: bool,
}

impl HttpClient {
    /// Creates a client for a base URL such as `http://127.0.0.1:3000`.
    pub fn new(base_url: &str) -> Self {
        Self { checks_document: true, ..Self::of_proxy(base_url) }
    }

    /// As [`HttpClient::new`], for a proxy, whose own responses are not in the OpenAPI document.
    pub fn of_proxy(base_url: &str) -> Self {
        let client = client_builder().pool_max_idle_per_host(2_000).build().expect("a client");
        Self::with_client(client, base_url)
    }

    /// As [`HttpClient::of_proxy`], with the local address 127.0.0.2; only Linux routes all of 127.0.0.0/8.
    pub fn from_other_address(base_url: &str) -> Self {
        let other_address = IpAddr::from([127, 0, 0, 2]);
        Self::with_client(client_builder().local_address(other_address).build().expect("a client"), base_url)
    }

    fn with_client(client: Client, base_url: &str) -> Self {
        Self { client, base_url: base_url.to_owned(), tolerates_shutdown: false, checks_document: false }
    }

    /// Returns a client that accepts [`Response::is_engine_shutdown`], for tests that kill the app during requests.
    pub fn tolerating_shutdown(&self) -> Self {
        Self { tolerates_shutdown: true, ..self.clone() }
    }

    /// Sends a request; panics without a response. An empty `token` and a null `body` are left out.
    pub async fn send(&self, method: Method, path: &str, token: &str, body: &Value) -> Response {
        self.try_send(method, path, token, body).await.unwrap_or_else(|error| panic!("{path}: {error:?}"))
    }

    /// As [`HttpClient::send`], for requests that the app may not survive.
    ///
    /// # Errors
    /// If the connection fails before the whole response has arrived: the app may or may not have acted.
    pub async fn try_send(
        &self,
        method: Method,
        path: &str,
        token: &str,
        body: &Value,
    ) -> Result<Response, reqwest::Error> {
        let mut headers = vec![];
        if !token.is_empty() {
            headers.push(("authorization", format!("Bearer {token}")));
        }
        if !body.is_null() {
            headers.push(("content-type", "application/json".to_owned()));
        }
        let text = if body.is_null() { String::new() } else { body.to_string() };
        self.send_with_headers(method, path, &headers, text).await
    }

    /// Sends a request with exactly these headers and this body.
    pub async fn send_with_headers(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, String)],
        body: impl Into<reqwest::Body>,
    ) -> Result<Response, reqwest::Error> {
        let mut request = self.client.request(method.clone(), format!("{}{path}", self.base_url)).body(body);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let received = request.send().await?;
        let response = Response {
            request: format!("{method} {path}"),
            status: received.status().as_u16(),
            headers: received.headers().clone(),
            body: received.text().await?,
        };
        if !(self.tolerates_shutdown && response.is_engine_shutdown()) {
            response.assert_common_contract();
            if self.checks_document {
                OpenApi::of_app().check(&response).unwrap_or_else(|error| panic!("{error}\n{response:?}"));
            }
        }
        Ok(response)
    }

    /// Sends `GET` with an optional token.
    pub async fn get(&self, path: &str, token: &str) -> Response {
        self.send(Method::GET, path, token, &Value::Null).await
    }

    /// Sends `POST` with an optional token and JSON body.
    pub async fn post(&self, path: &str, token: &str, body: &Value) -> Response {
        self.send(Method::POST, path, token, body).await
    }
}

/// A response with its whole body.
#[derive(Debug, Clone)]
pub struct Response {
    /// Method and path of the request, for failure messages.
    pub request: String,
    /// HTTP status code.
    pub status: u16,
    /// Response headers.
    pub headers: HeaderMap,
    /// Body as text.
    pub body: String,
}

impl Response {
    /// Returns a header; empty if it is absent or not ASCII.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Parses the body; panics if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// Returns a string member of the JSON body; empty if it is absent or not a string.
    pub fn text(&self, name: &str) -> String {
        self.json()[name].as_str().unwrap_or_default().to_owned()
    }

    /// Returns the `code` of a problem document; empty for any other response.
    pub fn code(&self) -> String {
        if self.header("content-type") == "application/problem+json" { self.text("code") } else { String::new() }
    }

    /// Names the case of a test in failure messages.
    #[must_use]
    pub fn of(self, case: impl Display) -> Self {
        Self { request: format!("{} ({case})", self.request), ..self }
    }

    /// Asserts the status code.
    #[track_caller]
    pub fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    /// Asserts a complete problem document with this status and code, and `Retry-After` for 429 and 503.
    #[track_caller]
    pub fn is_problem(self, status: u16, code: &str) -> Self {
        assert_eq!((self.status, self.code().as_str()), (status, code), "{self:?}");
        let document = self.json();
        assert_eq!(document["status"], status, "{self:?}");
        for member in ["type", "title", "detail"] {
            assert!(document[member].as_str().is_some_and(|text| !text.is_empty()), "no {member}: {self:?}");
        }
        if matches!(status, 429 | 503) {
            let seconds = self.header("retry-after").parse::<u32>();
            assert!(seconds.is_ok_and(|seconds| seconds > 0), "no Retry-After: {self:?}");
        }
        self
    }

    /// Asserts that a problem document has an error with this JSON pointer.
    #[track_caller]
    pub fn points_at(self, pointer: &str) -> Self {
        let document = self.json();
        let errors = document["errors"].as_array().cloned().unwrap_or_default();
        assert!(errors.iter().any(|error| error["pointer"] == pointer), "nothing points at {pointer}: {self:?}");
        self
    }

    /// Whether this is the empty `500` that an engine sends for open requests when it exits; the app never sends one.
    /// nginx passes it on and adds a request id.
    pub fn is_engine_shutdown(&self) -> bool {
        self.status == 500 && self.body.is_empty()
    }

    /// Asserts what every response has: a request id, a length, a problem document for an error, and no internals.
    fn assert_common_contract(&self) {
        assert!(!self.header("x-request-id").is_empty(), "no x-request-id: {self:?}");
        assert!(!self.headers.contains_key("transfer-encoding"), "chunked: {self:?}");
        let bodiless = matches!(self.status, 204 | 304);
        assert!(bodiless || self.headers.contains_key("content-length"), "no content-length: {self:?}");
        let is_page = self.header("content-type").starts_with("text/html");
        if self.status >= 400 && !is_page {
            assert!(!self.code().is_empty(), "not a problem document: {self:?}");
        }
        for secret in ["redis://", "postgres://", "panicked at", ".wasm", "wasm trap"] {
            assert!(!self.body.contains(secret), "server internals: {self:?}");
        }
        if let Ok(document) = serde_json::from_str(&self.body) {
            assert_times(&document, self);
        }
    }
}

/// Asserts that every time has three decimals, and that none stands for no time.
fn assert_times(document: &Value, response: &Response) {
    match document {
        Value::Array(items) => items.iter().for_each(|item| assert_times(item, response)),
        Value::Object(members) => members.values().for_each(|member| assert_times(member, response)),
        Value::String(text) if OffsetDateTime::parse(text, &Rfc3339).is_ok() => {
            let (is_exact, is_none) = (text.len() == "2026-11-21T20:00:00.000Z".len(), text.starts_with("1970-"));
            assert!(is_exact && text.ends_with('Z') && !is_none, "{text}: {response:?}");
        }
        _ => {}
    }
}

/// Sends the pieces of a request as they are, 50 ms apart, from an address of this machine. Returns what the server at `port`
/// answers until it closes the connection.
pub async fn exchange(from: Ipv4Addr, port: u16, pieces: &[&[u8]]) -> String {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind((from, 0).into()).expect("an address");
    let mut stream = socket.connect((Ipv4Addr::LOCALHOST, port).into()).await.expect("the server");
    stream.set_nodelay(true).expect("no delay");
    for (index, piece) in pieces.iter().enumerate() {
        if index > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        stream.write_all(piece).await.expect("sent");
    }
    let mut response = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut response));
    read.await.expect("an end of the answer").expect("an answer");
    String::from_utf8_lossy(&response).into_owned()
}

/// Sends the head of a request, without its end, as [`exchange`] does. Returns the status.
pub async fn status_of(from: Ipv4Addr, port: u16, head: &[u8]) -> String {
    let response = exchange(from, port, &[&[head, b"connection: close\r\n\r\n"].concat()]).await;
    response.split(' ').nth(1).unwrap_or_default().to_owned()
}
