//! HTTP clients with pooled connections to other servers.

use std::{
    error::Error as _,
    fmt,
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use anyhow::Context as _;
use http::{Request, Response, Uri};
use http_body_util::BodyExt as _;
use hyper_util::{
    client::legacy::{
        Client, Error as ClientError,
        connect::{Connected, Connection},
    },
    rt::{TokioExecutor, TokioIo},
};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tower_service::Service;
use wasmtime_wasi_http::{Error, WasiBody};

tokio::task_local! {
    /// The pooled client takes no options per request, so the timeout is passed in a task-local.
    static CONNECT_TIMEOUT: Duration;
}

/// The HTTP and HTTPS clients that all instances of the process share.
#[derive(Clone)]
pub struct Clients {
    plain: Client<PlainConnector, WasiBody>,
    tls: Client<TlsConnectorService, WasiBody>,
}

impl Clients {
    /// Creates clients without open connections.
    pub fn new(tls: Arc<ClientConfig>) -> Self {
        let mut config = (*tls).clone();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let connector = TlsConnectorService(TlsConnector::from(Arc::new(config)));
        Self {
            plain: Client::builder(TokioExecutor::new()).build(PlainConnector),
            tls: Client::builder(TokioExecutor::new()).build(connector),
        }
    }

    /// Sends a request and waits for the status and headers of the response.
    pub async fn request(
        &self,
        request: Request<WasiBody>,
        use_tls: bool,
        connect_timeout: Duration,
    ) -> Result<Response<WasiBody>, Error> {
        let response = CONNECT_TIMEOUT.scope(connect_timeout, async {
            if use_tls { self.tls.request(request).await } else { self.plain.request(request).await }
        });
        let response = response.await.map_err(client_error)?;
        Ok(response.map(|body| body.map_err(body_error).boxed_unsync()))
    }
}

/// Returns a TLS configuration that trusts the machine's certificates and the compiled-in root certificates.
///
/// # Errors
/// If the machine's certificates cannot be read.
pub fn tls_config() -> anyhow::Result<Arc<ClientConfig>> {
    let builder = ClientConfig::builder();
    let roots = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().cloned();
    let verifier = rustls_platform_verifier::Verifier::new_with_extra_roots(roots, builder.crypto_provider().clone())
        .context("the machine's certificates cannot be read")?;
    let config = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    Ok(Arc::new(config.with_no_client_auth()))
}

fn client_error(error: ClientError) -> Error {
    if let Some(error) = error.source().and_then(|source| source.downcast_ref::<ConnectError>()) {
        return error.into();
    }
    tracing::warn!("an outgoing request failed: {error:?}");
    Error::HttpProtocolError
}

fn body_error(error: hyper::Error) -> Error {
    tracing::warn!("a response broke off: {error:?}");
    Error::HttpProtocolError
}

/// Why connecting failed. `Copy`, because the pooled client returns the source error by reference only.
#[derive(Debug, Clone, Copy)]
enum ConnectError {
    InvalidUri,
    Dns(&'static str),
    Refused,
    TimedOut,
    Tls,
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for ConnectError {}

impl From<&ConnectError> for Error {
    fn from(error: &ConnectError) -> Self {
        match error {
            ConnectError::InvalidUri => Self::HttpRequestUriInvalid,
            ConnectError::Dns(reason) => Self::DnsError { rcode: Some((*reason).to_owned()), info_code: Some(0) },
            ConnectError::Refused => Self::ConnectionRefused,
            ConnectError::TimedOut => Self::ConnectionTimeout,
            ConnectError::Tls => Self::TlsProtocolError,
        }
    }
}

async fn connect_tcp(uri: &Uri, default_port: u16) -> Result<TcpStream, ConnectError> {
    let authority = uri.authority().ok_or(ConnectError::InvalidUri)?;
    let address = match authority.port() {
        Some(_) => authority.to_string(),
        None => format!("{authority}:{default_port}"),
    };
    let addresses: Vec<_> =
        tokio::net::lookup_host(&address).await.map_err(|_| ConnectError::Dns("address not available"))?.collect();
    tokio::time::timeout(CONNECT_TIMEOUT.get(), TcpStream::connect(&*addresses))
        .await
        .map_err(|_| ConnectError::TimedOut)?
        .map_err(|error| match error.kind() {
            io::ErrorKind::AddrNotAvailable => ConnectError::Dns("address not available"),
            _ => ConnectError::Refused,
        })
}

type ConnectFuture<S> = Pin<Box<dyn Future<Output = Result<S, ConnectError>> + Send>>;

#[derive(Clone)]
struct PlainConnector;

impl Service<Uri> for PlainConnector {
    type Response = TokioIo<TcpStream>;
    type Error = ConnectError;
    type Future = ConnectFuture<Self::Response>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(async move { connect_tcp(&uri, 80).await.map(TokioIo::new) })
    }
}

#[derive(Clone)]
struct TlsConnectorService(TlsConnector);

impl Service<Uri> for TlsConnectorService {
    type Response = TokioIo<TlsConnection>;
    type Error = ConnectError;
    type Future = ConnectFuture<Self::Response>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = self.0.clone();
        Box::pin(async move {
            let stream = connect_tcp(&uri, 443).await?;
            let host = uri.host().ok_or(ConnectError::InvalidUri)?.to_owned();
            let name = ServerName::try_from(host).map_err(|_| ConnectError::Dns("invalid dns name"))?;
            let stream = connector.connect(name, stream).await.map_err(|error| {
                tracing::warn!("tls protocol error: {error:?}");
                ConnectError::Tls
            })?;
            Ok(TokioIo::new(TlsConnection(stream)))
        })
    }
}

/// A TLS connection that reports whether HTTP/2 was negotiated.
struct TlsConnection(TlsStream<TcpStream>);

impl Connection for TlsConnection {
    fn connected(&self) -> Connected {
        let (tcp, tls) = self.0.get_ref();
        if tls.alpn_protocol() == Some(b"h2") { tcp.connected().negotiated_h2() } else { tcp.connected() }
    }
}

impl AsyncRead for TlsConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for TlsConnection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }
}
