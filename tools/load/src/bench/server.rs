//! Plain HTTP/1.1 connections without a pool, to keep the load generator cheap.
//!
//! One socket per connection, one request at a time.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{
    Method, Request, Uri,
    header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue},
};
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

pub type PreparedRequest = Request<Full<Bytes>>;

/// Addresses of the measured app processes.
#[derive(Debug, Clone)]
pub struct Server {
    addresses: Vec<String>,
    next_connection: Arc<AtomicUsize>,
    host: HeaderValue,
}

impl Server {
    /// Parses a `http://` URL.
    pub fn new(url: &str) -> Result<Self> {
        let uri: Uri = url.parse().with_context(|| format!("{url} is not a URL"))?;
        ensure!(
            uri.scheme_str() == Some("http"),
            "bench measures plain http:// only: encryption would be measured too"
        );
        let authority = uri.authority().with_context(|| format!("{url} names no host"))?;
        let port = authority.port_u16().unwrap_or(80);
        Ok(Self {
            addresses: vec![format!("{}:{port}", authority.host())],
            next_connection: Arc::default(),
            host: HeaderValue::from_str(authority.as_str()).context("a host name that no header may carry")?,
        })
    }

    /// Adds the process at another `http://` URL. Each connection goes to the next process.
    pub fn add_process(&mut self, url: &str) -> Result<()> {
        self.addresses.extend(Self::new(url)?.addresses);
        Ok(())
    }

    /// Whether one process gets all requests.
    pub fn is_one_process(&self) -> bool {
        self.addresses.len() == 1
    }

    pub async fn connect(&self) -> Result<SendRequest<Full<Bytes>>> {
        let address = &self.addresses[self.next_connection.fetch_add(1, Ordering::Relaxed) % self.addresses.len()];
        let socket = TcpStream::connect(address)
            .await
            .with_context(|| format!("nothing answers at {address}: start the app with scripts/up"))?;
        socket.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(socket)).await?;
        // When the connection ends, the sender returns an error.
        tokio::spawn(connection);
        Ok(sender)
    }

    /// Builds a request that only needs to be sent.
    pub fn request(
        &self,
        method: Method,
        path: &str,
        authorization: Option<&HeaderValue>,
        body: Bytes,
    ) -> Result<PreparedRequest> {
        let mut request = Request::builder().method(method).uri(path).header(HOST, &self.host);
        if let Some(value) = authorization {
            request = request.header(AUTHORIZATION, value);
        }
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        Ok(request.body(Full::new(body))?)
    }
}
