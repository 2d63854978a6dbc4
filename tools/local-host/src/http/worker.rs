//! Creates component instances, and limits their lifetime and their requests.

use std::{
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use http::uri::Scheme;
use tokio::time::Sleep;
use wasmtime::{Store, StoreContextMut, component::GuestTaskId};
use wasmtime_wasi_http::{
    handler::{HandlerState, Instance, Proxy, ShouldAccept, WorkerExpiration, WorkerState, WorkerStatus},
    p3::bindings::ServicePre,
};

use crate::{cli::Range, component::LoadedComponent, hosts::http::Origin, state::State};

/// The limits of instances. If a limit is a range, each instance takes a random value from it.
#[derive(Debug, Clone, Copy)]
pub struct ReuseOptions {
    /// How many requests an instance serves in total.
    pub max_requests: Range<usize>,
    /// How many requests an instance serves concurrently.
    pub max_concurrent: Range<usize>,
    /// How long an instance may take to respond. `None`: no limit.
    pub request_timeout: Option<Range<Duration>>,
    /// How long an idle instance waits for the next request.
    pub idle_timeout: Range<Duration>,
}

/// Creates the instances of one component.
pub struct ComponentHandler {
    component: Arc<LoadedComponent>,
    service: ServicePre<State>,
    reuse: ReuseOptions,
    address: std::net::SocketAddr,
    scheme: OnceLock<Scheme>,
}

impl ComponentHandler {
    /// Checks that the component serves HTTP.
    ///
    /// # Errors
    /// If it does not export `wasi:http/handler@0.3`.
    pub fn new(
        component: Arc<LoadedComponent>,
        reuse: ReuseOptions,
        address: std::net::SocketAddr,
    ) -> anyhow::Result<Self> {
        let service = ServicePre::new(component.pre().clone()).map_err(|_| {
            anyhow::anyhow!(
                "the component {:?} does not export wasi:http/handler@0.3; build it with spin-sdk 7 \
                 and #[http_service]",
                component.id()
            )
        })?;
        Ok(Self { component, service, reuse, address, scheme: OnceLock::new() })
    }

    /// Records the scheme of the first request. Later calls have no effect. Requests to `self` use this scheme.
    pub fn record_scheme(&self, scheme: Option<&Scheme>) {
        if let Some(scheme) = scheme {
            self.scheme.get_or_init(|| scheme.clone());
        }
    }
}

impl HandlerState for ComponentHandler {
    type StoreData = State;
    type WorkerExpiration = Expiration;
    type WorkerState = InstanceLimits;

    async fn instantiate(&self) -> wasmtime::Result<Instance<State, Expiration, InstanceLimits>> {
        let origin = Origin { scheme: self.scheme.get().cloned().unwrap_or(Scheme::HTTPS), address: self.address };
        let mut store = self.component.store(Some(origin)).map_err(wasmtime::Error::from_anyhow)?;
        let service = self.service.instantiate_async(&mut store).await?;
        let request_timeout = self.reuse.request_timeout.map_or(Duration::MAX, |range| range.sample());
        Ok(Instance {
            store,
            proxy: Proxy::P3(service),
            view: State::inbound_http_view,
            expiration: Expiration {
                idle_timeout: self.reuse.idle_timeout.sample(),
                request_timeout,
                sleep: Box::pin(tokio::time::sleep(Duration::MAX)),
            },
            state: InstanceLimits {
                max_requests: self.reuse.max_requests.sample(),
                max_concurrent: self.reuse.max_concurrent.sample(),
                request_timeout,
            },
        })
    }
}

/// Expires an instance that was idle, or busy without a response, for too long.
pub struct Expiration {
    idle_timeout: Duration,
    request_timeout: Duration,
    sleep: Pin<Box<Sleep>>,
}

impl WorkerExpiration for Expiration {
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>, status: WorkerStatus, since: Instant) -> Poll<()> {
        let timeout = match status {
            WorkerStatus::Idle => self.idle_timeout,
            WorkerStatus::Requests | WorkerStatus::PostReturn => self.request_timeout,
        };
        // `Duration::MAX` (no timeout) overflows.
        let Some(deadline) = since.checked_add(timeout) else { return Poll::Pending };
        let deadline = deadline.into();
        if deadline != self.sleep.deadline() {
            self.sleep.as_mut().reset(deadline);
        }
        self.sleep.as_mut().poll(context)
    }
}

/// The sampled limits of one instance.
pub struct InstanceLimits {
    max_requests: usize,
    max_concurrent: usize,
    request_timeout: Duration,
}

impl WorkerState for InstanceLimits {
    type StoreData = State;
    type RequestData = ();

    fn should_accept_request(&self, concurrent: usize, total: usize) -> ShouldAccept {
        if total >= self.max_requests {
            ShouldAccept::Never
        } else if concurrent >= self.max_concurrent {
            ShouldAccept::No
        } else {
            ShouldAccept::Yes
        }
    }

    fn on_request_start(
        &self,
        _: StoreContextMut<'_, State>,
        (): (),
        _: GuestTaskId,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + Sync>> {
        Box::pin(tokio::time::sleep(self.request_timeout))
    }

    fn drop(&self, store: Store<State>, result: Result<(), wasmtime::Error>) {
        if let Err(error) = result {
            eprintln!("worker failed: {error:?}");
        }
        drop(store);
    }
}
