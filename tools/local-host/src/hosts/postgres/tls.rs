//! TLS connections to PostgreSQL, with rustls.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use anyhow::Context as _;
use rustls::{
    ClientConfig,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

/// Creates TLS connections with one configuration.
#[derive(Clone)]
pub struct MakeRustlsConnect(Arc<ClientConfig>);

impl MakeRustlsConnect {
    pub fn new(config: Arc<ClientConfig>) -> Self {
        Self(config)
    }
}

/// Returns a configuration that trusts `certificate` (PEM) in addition to the default root certificates.
pub fn config_with_root(certificate: &str) -> anyhow::Result<Arc<ClientConfig>> {
    let builder = ClientConfig::builder();
    let roots =
        parse_certificates(certificate)?.into_iter().chain(webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().cloned());
    let verifier = rustls_platform_verifier::Verifier::new_with_extra_roots(roots, builder.crypto_provider().clone())
        .context("the machine's certificates cannot be read")?;
    let config = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    Ok(Arc::new(config.with_no_client_auth()))
}

/// Returns an error unless `certificate` holds at least one PEM certificate.
pub fn check_certificate(certificate: &str) -> anyhow::Result<()> {
    let found = parse_certificates(certificate)?;
    anyhow::ensure!(!found.is_empty(), "there is no certificate in it");
    Ok(())
}

fn parse_certificates(certificate: &str) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    Ok(CertificateDer::pem_slice_iter(certificate.as_bytes()).collect::<Result<_, _>>()?)
}

impl<S> MakeTlsConnect<S> for MakeRustlsConnect
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = RustlsStream<S>;
    type TlsConnect = RustlsConnect;
    type Error = rustls::pki_types::InvalidDnsNameError;

    fn make_tls_connect(&mut self, domain: &str) -> Result<RustlsConnect, Self::Error> {
        let name = ServerName::try_from(domain)?.to_owned();
        Ok(RustlsConnect { connector: TlsConnector::from(self.0.clone()), name })
    }
}

/// Performs the TLS handshake on an open connection.
pub struct RustlsConnect {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl<S> TlsConnect<S> for RustlsConnect
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = RustlsStream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<RustlsStream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move { self.connector.connect(self.name, stream).await.map(RustlsStream) })
    }
}

/// An encrypted connection.
pub struct RustlsStream<S>(tokio_rustls::client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for RustlsStream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for RustlsStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for RustlsStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
