//! HTTP server: accepts connections, finds the route and calls the component.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};

use anyhow::Context as _;
use http::{Request, Response, StatusCode, uri::Scheme};
use http_body_util::BodyExt as _;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
};
use tokio::net::{TcpListener, TcpStream};
use wasmtime_wasi_http::{Error, WasiBody, handler::ProxyHandler};

use super::{
    headers::{self, RouteInfo},
    message::{empty_response, set_authority, text_body},
    routes::{Routes, WELL_KNOWN_PREFIX},
    worker::{ComponentHandler, ReuseOptions},
};
use crate::{
    calls,
    component::LoadedComponent,
    manifest::{App, Route},
};

/// The client address in a request from another component.
const CHAINED_CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// The server of an application.
pub struct Server {
    routes: Routes<Target>,
    handlers: HashMap<String, ProxyHandler<ComponentHandler>>,
}

/// The target of a route.
struct Target {
    component: String,
    description: String,
}

impl Server {
    /// Builds the routes and checks that every component serves HTTP.
    ///
    /// # Errors
    /// If a route is malformed, or a component does not serve HTTP.
    pub fn new(
        app: &App,
        components: HashMap<String, Arc<LoadedComponent>>,
        reuse: ReuseOptions,
    ) -> anyhow::Result<Self> {
        let targets = app.http.iter().filter_map(|trigger| match &trigger.route {
            Route::Public(route) => {
                let description = app.components.get(&trigger.component).map(|c| c.description.clone());
                let description = description.unwrap_or_default();
                Some((route.clone(), Target { component: trigger.component.clone(), description }))
            }
            Route::Private(_) => None,
        });
        let routes = Routes::build(targets, |route, target| {
            tracing::error!("the route {route} of {} is a duplicate and will never be used", target.component);
        })?;
        if routes.has_reserved_route() {
            tracing::error!("routes under {WELL_KNOWN_PREFIX} will never be reached");
        }
        let handlers = components
            .into_iter()
            .map(|(id, component)| {
                let handler = ComponentHandler::new(component, reuse)?;
                Ok((id, ProxyHandler::new(handler)))
            })
            .collect::<anyhow::Result<_>>()?;
        Ok(Self { routes, handlers })
    }

    /// Serves until the process ends.
    ///
    /// # Errors
    /// If accepting a connection fails.
    pub async fn serve(self: Arc<Self>, listener: TcpListener) -> anyhow::Result<()> {
        let base = format!("http://{}", listener.local_addr()?);
        println!("\nServing {base}");
        println!("Available Routes:");
        for (route, target) in self.routes.iter() {
            println!("  {}: {base}{route}", target.component);
            if !target.description.is_empty() {
                println!("    {}", target.description);
            }
        }
        loop {
            // Nagle's algorithm stays on, as in Spin, so that a response in small pieces is as slow here as there.
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
        let result = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
        if let Err(error) = result {
            tracing::warn!("an HTTP connection broke: {error:?}");
        }
    }

    async fn handle(&self, mut request: Request<WasiBody>, client: SocketAddr) -> anyhow::Result<Response<WasiBody>> {
        headers::sanitize(request.headers_mut());
        let path = request.uri().path().to_owned();
        if let Some(well_known) = path.strip_prefix(WELL_KNOWN_PREFIX) {
            return Ok(match well_known {
                "health" => Response::new(text_body("OK")),
                // Spin has no such path.
                "calls" => Response::new(text_body(calls::json())),
                _ => empty_response(StatusCode::NOT_FOUND),
            });
        }
        let Some(found) = self.routes.find(&path) else {
            return Ok(empty_response(StatusCode::NOT_FOUND));
        };
        set_authority(&mut request, Scheme::HTTP)?;
        let route = RouteInfo {
            raw: found.raw,
            based: found.based,
            trailing: found.trailing(),
            named: found.named().collect(),
        };
        self.call(&found.target.component, request, &route, client).await
    }

    /// Calls a component on behalf of another one.
    ///
    /// # Errors
    /// If there is no such component. A failure of the component is a response with status 500 instead.
    pub async fn chain(&self, component: &str, mut request: Request<WasiBody>) -> anyhow::Result<Response<WasiBody>> {
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
        let handler =
            self.handlers.get(component).with_context(|| format!("unknown routing destination '{component}'"))?;
        let response = match headers::append_spin_headers(&mut request, route, client) {
            Ok(()) => handler.handle((), request).await.map_err(anyhow::Error::from),
            Err(error) => Err(error),
        };
        Ok(response.unwrap_or_else(|error| {
            tracing::error!("a request to the component {component:?} failed: {error:?}");
            empty_response(StatusCode::INTERNAL_SERVER_ERROR)
        }))
    }
}
