//! The HTTP server: accepts connections, finds the route, calls the component.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http::{
    Request, Response, StatusCode, Uri,
    header::{CONTENT_TYPE, HOST},
    uri::{Authority, Scheme},
};
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
};
use tokio::net::{TcpListener, TcpStream};
use wasmtime_wasi_http::{Error, WasiBody, handler::ProxyHandler};

use super::{
    headers::{self, RouteInfo},
    routes::{Routes, WELL_KNOWN_PREFIX},
    worker::{ComponentHandler, ReuseOptions},
};
use crate::{
    component::LoadedComponent,
    manifest::{App, HttpTarget, Route, StaticResponse},
};

/// The address that a component sees when another component calls it.
const CHAINED_CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// The server of an application.
pub struct Server {
    info: String,
    routes: Routes<Target>,
    handlers: HashMap<String, ProxyHandler<ComponentHandler>>,
}

/// What a route leads to.
struct Target {
    /// How it is shown at the start.
    label: String,
    description: String,
    answer: HttpTarget,
}

impl Server {
    /// Builds the routes and checks every component.
    ///
    /// # Errors
    ///
    /// If a route is malformed, or a component does not serve HTTP.
    pub fn new(
        app: &App,
        components: HashMap<String, Arc<LoadedComponent>>,
        reuse: ReuseOptions,
        address: SocketAddr,
    ) -> anyhow::Result<Self> {
        let targets = app.http.iter().filter_map(|trigger| match &trigger.route {
            Route::Public(route) => Some((route.clone(), Target::new(app, trigger))),
            Route::Private(_) => None,
        });
        let routes = Routes::build(targets, |route, target| {
            tracing::error!("the route {route} of {} is a duplicate and will never be used", target.label);
        })?;
        if routes.any_reserved() {
            tracing::error!("routes under {WELL_KNOWN_PREFIX} will never be reached");
        }
        let handlers = components
            .into_iter()
            .map(|(id, component)| {
                let handler = ComponentHandler::new(component, reuse, address)?;
                Ok((id, ProxyHandler::new(handler)))
            })
            .collect::<anyhow::Result<_>>()?;
        let mut info = serde_json::json!({ "name": app.name });
        if !app.version.is_empty() {
            info["version"] = app.version.clone().into();
        }
        Ok(Self { info: serde_json::to_string_pretty(&info)?, routes, handlers })
    }

    /// Serves until the process ends.
    ///
    /// # Errors
    ///
    /// If no more connections can be accepted.
    pub async fn serve(self: Arc<Self>, listener: TcpListener) -> anyhow::Result<()> {
        let base = format!("http://{}", listener.local_addr()?);
        println!("\nServing {base}");
        println!("Available Routes:");
        for (route, target) in self.routes.iter() {
            println!("  {}: {base}{route}", target.label);
            if !target.description.is_empty() {
                println!("    {}", target.description);
            }
        }
        loop {
            // Nagle's algorithm stays on, as in Spin: how a component answers shows in its speed.
            let (stream, client) = listener.accept().await?;
            tokio::spawn(self.clone().serve_connection(stream, client));
        }
    }

    async fn serve_connection(self: Arc<Self>, stream: TcpStream, client: SocketAddr) {
        let service = service_fn(|request: Request<Incoming>| {
            let server = self.clone();
            async move {
                let request = request.map(|body| body.map_err(Error::from).boxed_unsync());
                server.handle(request, client).await
            }
        });
        let served = Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(stream), service)
            .await;
        if let Err(error) = served {
            tracing::warn!("an HTTP connection broke: {error:?}");
        }
    }

    async fn handle(
        &self,
        mut request: Request<WasiBody>,
        client: SocketAddr,
    ) -> anyhow::Result<Response<WasiBody>> {
        headers::strip(request.headers_mut());
        let path = request.uri().path().to_owned();
        if let Some(well_known) = path.strip_prefix(WELL_KNOWN_PREFIX) {
            return Ok(match well_known {
                "health" => Response::new(text("OK".into())),
                "info" => Response::builder()
                    .header(CONTENT_TYPE, "application/json")
                    .body(text(self.info.clone()))?,
                _ => empty(StatusCode::NOT_FOUND),
            });
        }
        let Some(found) = self.routes.find(&path) else {
            return Ok(empty(StatusCode::NOT_FOUND));
        };
        set_authority(&mut request, Scheme::HTTP)?;
        match &found.target.answer {
            HttpTarget::Static(response) => fixed(response),
            HttpTarget::Component(id) => {
                let route = RouteInfo {
                    raw: found.raw,
                    based: found.based,
                    trailing: found.trailing(),
                    named: found.named().collect(),
                };
                self.call(id, request, &route, client).await
            }
        }
    }

    /// Calls a component on behalf of another one.
    ///
    /// # Errors
    ///
    /// If there is no such component. What it does wrong itself is a response.
    pub async fn chain(
        &self,
        component: &str,
        mut request: Request<WasiBody>,
    ) -> anyhow::Result<Response<WasiBody>> {
        set_authority(&mut request, Scheme::HTTP)?;
        let trailing = request.uri().path().to_owned();
        let route = RouteInfo { raw: "/...", based: "/...", trailing, named: vec![] };
        self.call(component, request, &route, CHAINED_CLIENT).await
    }

    async fn call(
        &self,
        component: &str,
        mut request: Request<WasiBody>,
        route: &RouteInfo<'_>,
        client: SocketAddr,
    ) -> anyhow::Result<Response<WasiBody>> {
        let handler = self
            .handlers
            .get(component)
            .with_context(|| format!("unknown routing destination '{component}'"))?;
        handler.state().note_scheme(request.uri().scheme());
        let response = match headers::add(&mut request, route, client) {
            Ok(()) => handler.handle((), request).await.map_err(anyhow::Error::from),
            Err(error) => Err(error),
        };
        Ok(response.unwrap_or_else(|error| {
            tracing::error!(component, "Error processing request: {error:?}");
            empty(StatusCode::INTERNAL_SERVER_ERROR)
        }))
    }
}

impl Target {
    fn new(app: &App, trigger: &crate::manifest::HttpTrigger) -> Self {
        let answer = trigger.target.clone();
        match &answer {
            HttpTarget::Component(id) => Self {
                label: id.clone(),
                description: app.components.get(id).map_or_else(String::new, |c| c.description.clone()),
                answer,
            },
            HttpTarget::Static(_) => {
                Self { label: trigger.id.clone(), description: String::new(), answer }
            }
        }
    }
}

/// Gives the URI the scheme and the authority that it lacks.
fn set_authority<B>(request: &mut Request<B>, scheme: Scheme) -> anyhow::Result<()> {
    let from_header: Option<Authority> = match request.headers().get(HOST) {
        Some(host) => Some(
            host.to_str()
                .context("'Host' header is not valid UTF-8")?
                .parse()
                .context("'Host' header contains an invalid authority")?,
        ),
        None => None,
    };
    let mut parts = request.uri().clone().into_parts();
    let authority = match (from_header, parts.authority.take()) {
        (None, None) => bail!("no 'Host' header present in request"),
        (Some(header), Some(uri)) if header != uri => {
            bail!("authority in 'Host' header does not match authority in URI")
        }
        (Some(authority), _) | (None, Some(authority)) => authority,
    };
    parts.scheme = Some(scheme);
    parts.authority = Some(authority);
    *request.uri_mut() = Uri::from_parts(parts)?;
    Ok(())
}

fn fixed(response: &StaticResponse) -> anyhow::Result<Response<WasiBody>> {
    let mut builder = Response::builder().status(response.status_code.unwrap_or(200));
    for (name, value) in &response.headers {
        builder = builder.header(name, value);
    }
    let body = match &response.body {
        Some(body) => text(body.clone()),
        None => nothing(),
    };
    Ok(builder.body(body)?)
}

fn empty(status: StatusCode) -> Response<WasiBody> {
    let mut response = Response::new(nothing());
    *response.status_mut() = status;
    response
}

fn nothing() -> WasiBody {
    Empty::<Bytes>::new().map_err(|never| match never {}).boxed_unsync()
}

fn text(body: String) -> WasiBody {
    Full::new(Bytes::from(body)).map_err(|never| match never {}).boxed_unsync()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authority(host: Option<&str>, uri: &str) -> anyhow::Result<String> {
        let mut request = Request::get(uri);
        if let Some(host) = host {
            request = request.header(HOST, host);
        }
        let mut request = request.body(())?;
        set_authority(&mut request, Scheme::HTTP)?;
        Ok(request.uri().to_string())
    }

    #[test]
    fn the_authority_comes_from_the_header_or_the_uri_but_they_must_agree() {
        assert_eq!(authority(Some("a.example"), "/x").unwrap(), "http://a.example/x");
        assert_eq!(authority(None, "http://a.example/x").unwrap(), "http://a.example/x");
        assert!(authority(Some("b.example"), "http://a.example/x").is_err());
        assert!(authority(None, "/x").is_err());
        assert!(authority(Some("a b"), "/x").is_err());
    }
}
