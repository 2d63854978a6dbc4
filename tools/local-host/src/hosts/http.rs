//! `wasi:http/client`: sends the HTTP requests of components.

mod connect;
mod timeout;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use http::{HeaderName, HeaderValue, Request, Response, header::HOST, uri::Scheme};
use http_body_util::BodyExt as _;
use wasmtime_wasi_http::{Error, ForbiddenHeaderFilter, RequestOptions, WasiBody, WasiHttpHooks};

pub use self::connect::{Clients, tls_config};
use self::timeout::BetweenBytesTimeout;
use crate::{calls, http::Server, outbound::AllowedHosts};

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

/// The server of this process, for requests from component to component. Set once the server is created.
#[derive(Default)]
pub struct Loopback(OnceLock<Arc<Server>>);

impl Loopback {
    /// Sets the server.
    pub fn set_server(&self, server: Arc<Server>) {
        // A second call would have no effect; there is only one.
        let _ = self.0.set(server);
    }

    /// Returns the server, if this process has one.
    pub fn server(&self) -> Option<&Arc<Server>> {
        self.0.get()
    }
}

/// Sends the requests of one instance.
pub struct OutboundHttp {
    /// The component's allow-list.
    pub allowed: Arc<AllowedHosts>,
    /// The connection pools that all instances share.
    pub clients: Clients,
    /// The server for service chaining (`<component>.spin.internal`).
    pub loopback: Arc<Loopback>,
}

type SendOutput = (Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>);

impl WasiHttpHooks for OutboundHttp {
    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        // Resolves when the guest has processed the response; not needed here.
        _: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Result<SendOutput, Error>> + Send> {
        calls::HTTP.record();
        let sender = RequestSender {
            allowed: self.allowed.clone(),
            clients: self.clients.clone(),
            loopback: self.loopback.clone(),
        };
        let options = options.unwrap_or_default();
        Box::new(async move {
            let between_bytes = options.between_bytes_timeout.unwrap_or(DEFAULT_TIMEOUT);
            let response = sender.send(request, options).await?;
            let response = response.map(|body| BetweenBytesTimeout::new(body, between_bytes).boxed_unsync());
            let completion: Box<dyn Future<Output = Result<(), Error>> + Send> = Box::new(async { Ok(()) });
            Ok((response, completion))
        })
    }
}

/// Hooks for incoming requests and their responses: a component sees every header, as in Spin.
///
/// By default wasmtime hides `host` and other headers that a component must not set.
#[derive(Debug)]
pub struct InboundHttp;

impl WasiHttpHooks for InboundHttp {
    fn is_forbidden_header(&mut self, _: &HeaderName) -> bool {
        false
    }

    fn forbidden_header_filter(&mut self) -> ForbiddenHeaderFilter {
        Arc::new(|_| false)
    }

    fn send_request(
        &mut self,
        _: Request<WasiBody>,
        _: Option<RequestOptions>,
        _: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Result<SendOutput, Error>> + Send> {
        // These hooks serve incoming requests only.
        Box::new(std::future::ready(Err(Error::HttpRequestDenied)))
    }
}

struct RequestSender {
    allowed: Arc<AllowedHosts>,
    clients: Clients,
    loopback: Arc<Loopback>,
}

impl RequestSender {
    async fn send(self, mut request: Request<WasiBody>, options: RequestOptions) -> Result<Response<WasiBody>, Error> {
        let use_tls = self.authorize(&mut request)?;
        let component = request.uri().host().and_then(chained_component).map(str::to_owned);
        if let (Some(component), Some(server)) = (component, self.loopback.server()) {
            return server.chain(&component, request).await.map_err(|error| {
                tracing::error!("a request to the component {component:?} failed: {error:#}");
                Error::InternalError(Some(error.to_string()))
            });
        }
        let connect_timeout = options.connect_timeout.unwrap_or(DEFAULT_TIMEOUT);
        let response = self.clients.request(request, use_tls, connect_timeout);
        tokio::time::timeout(options.first_byte_timeout.unwrap_or(DEFAULT_TIMEOUT), response)
            .await
            .map_err(|_| Error::ConnectionReadTimeout)?
    }

    /// Checks the allow-list. Returns whether to use TLS.
    fn authorize(&self, request: &mut Request<WasiBody>) -> Result<bool, Error> {
        if !self.allowed.allows_url(&request.uri().to_string(), "https").unwrap_or(false) {
            return Err(Error::HttpRequestDenied);
        }
        // The client sets `Host` from the URI. Over HTTP/2 some servers reject a request that has the header.
        request.headers_mut().remove(HOST);
        Ok(request.uri().scheme() == Some(&Scheme::HTTPS))
    }
}

/// Returns the component id in a host name of the form `<component>.spin.internal[:port]`.
pub fn chained_component(host: &str) -> Option<&str> {
    let host = host.trim();
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
    let (component, rest) = host.split_once('.')?;
    (rest == "spin.internal").then_some(component)
}

/// Returns whether a `Host` header is the internal host name of a component.
pub fn is_chaining_host(header: &HeaderValue) -> bool {
    header.to_str().is_ok_and(|host| chained_component(host).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chained_components_are_named_by_the_first_label() {
        assert_eq!(chained_component("cart.spin.internal"), Some("cart"));
        assert_eq!(chained_component("cart.spin.internal:8080"), Some("cart"));
        assert_eq!(chained_component("a.cart.spin.internal"), None);
        assert_eq!(chained_component("cart.example"), None);
        assert_eq!(chained_component("spin.internal"), None);
    }
}
