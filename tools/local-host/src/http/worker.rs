//! Creates component instances, and limits their lifetime and their requests.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use tokio::time::Sleep;
use wasmtime::{Store, StoreContextMut, component::GuestTaskId};
use wasmtime_wasi_http::{
    handler::{HandlerState, Instance, Proxy, ShouldAccept, WorkerExpiration, WorkerState, WorkerStatus},
    p3::bindings::ServicePre,
};

use crate::{component::LoadedComponent, state::State};

/// The limits of instances.
#[derive(Debug, Clone, Copy)]
pub struct ReuseOptions {
    /// How many requests an instance serves in total.
    pub max_requests: usize,
    /// How many requests an instance serves concurrently.
    pub max_concurrent: usize,
    /// How long an idle instance waits for the next request.
    pub idle_timeout: Duration,
}

/// Creates the instances of one component.
pub struct ComponentHandler {
    component: Arc<LoadedComponent>,
    service: ServicePre<State>,
    reuse: ReuseOptions,
}

impl ComponentHandler {
    /// Checks that the component serves HTTP.
    ///
    /// # Errors
    /// If it does not export `wasi:http/handler@0.3`.
    pub fn new(component: Arc<LoadedComponent>, reuse: ReuseOptions) -> anyhow::Result<Self> {
        let service = ServicePre::new(component.pre().clone()).map_err(|_| {
            anyhow::anyhow!(
                "the component {:?} does not export wasi:http/handler@0.3; build it with spin-sdk 7 \
                 and #[http_service]",
                component.id()
            )
        })?;
        Ok(Self { component, service, reuse })
    }
}

impl HandlerState for ComponentHandler {
    type StoreData = State;
    type WorkerExpiration = Expiration;
    type WorkerState = ReuseOptions;

    async fn instantiate(&self) -> wasmtime::Result<Instance<State, Expiration, ReuseOptions>> {
        let mut store = self.component.store().map_err(wasmtime::Error::from_anyhow)?;
        let service = self.service.instantiate_async(&mut store).await?;
        Ok(Instance {
            store,
            proxy: Proxy::P3(service),
            view: State::inbound_http_view,
            expiration: Expiration {
                idle_timeout: self.reuse.idle_timeout,
                sleep: Box::pin(tokio::time::sleep(Duration::MAX)),
            },
            state: self.reuse,
        })
    }
}

/// Expires an instance that was idle for too long.
pub struct Expiration {
    idle_timeout: Duration,
    sleep: Pin<Box<Sleep>>,
}

impl WorkerExpiration for Expiration {
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>, status: WorkerStatus, since: Instant) -> Poll<()> {
        if !matches!(status, WorkerStatus::Idle) {
            return Poll::Pending;
        }
        let deadline = (since + self.idle_timeout).into();
        if deadline != self.sleep.deadline() {
            self.sleep.as_mut().reset(deadline);
        }
        self.sleep.as_mut().poll(context)
    }
}

impl WorkerState for ReuseOptions {
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
        // Spin's default: no timeout.
        Box::pin(std::future::pending())
    }

    fn drop(&self, store: Store<State>, result: Result<(), wasmtime::Error>) {
        if let Err(error) = result {
            eprintln!("worker failed: {error:?}");
        }
        drop(store);
    }
}
