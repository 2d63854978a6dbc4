//! Per-instance state of the host, and the linker for the interfaces that use it.

use std::time::{Duration, Instant};

use wasmtime::{
    CallHook, Engine,
    component::{Linker, ResourceTable},
};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

use crate::{
    bindings,
    hosts::{
        http::{InboundHttp, OutboundHttp},
        key_value::{KeyValueData, KeyValueHost},
        postgres::{PostgresData, PostgresHost},
        redis::{RedisData, RedisHost},
        sqlite::{SqliteData, SqliteHost},
        variables::{VariablesData, VariablesHost},
    },
};

/// The data of a wasmtime store; each instance has its own.
pub struct State {
    /// WASI's own resources.
    pub table: ResourceTable,
    /// Files, environment and streams.
    pub wasi: WasiCtx,
    /// Limits of HTTP fields.
    pub http: WasiHttpCtx,
    /// `wasi:http/client`.
    pub outbound_http: OutboundHttp,
    /// `wasi:http/handler`.
    pub inbound_http: InboundHttp,
    /// `spin:key-value`.
    pub key_value: KeyValueHost,
    /// `spin:postgres`.
    pub postgres: PostgresHost,
    /// `spin:redis`.
    pub redis: RedisHost,
    /// `spin:sqlite`.
    pub sqlite: SqliteHost,
    /// `spin:variables`.
    pub variables: VariablesHost,
    /// The time that guest code has run in the instance.
    pub cpu: CpuTime,
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl WasiHttpView for State {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { ctx: &mut self.http, table: &mut self.table, hooks: &mut self.outbound_http }
    }
}

impl State {
    /// The view that wasmtime's handler uses for incoming requests.
    pub fn inbound_http_view(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { ctx: &mut self.http, table: &mut self.table, hooks: &mut self.inbound_http }
    }
}

/// Creates a linker with every interface that a component may import.
///
/// # Errors
/// If two interfaces define the same name, which does not happen.
pub fn linker(engine: &Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker: Linker<State> = Linker::new(engine);
    // Rust's standard library for wasm32-wasip2 imports WASI 0.2, the SDK imports 0.3.
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    wasmtime_wasi::p3::add_to_linker(&mut linker)?;
    wasmtime_wasi_http::p3::add_to_linker(&mut linker)?;
    bindings::key_value::add_to_linker::<_, KeyValueData>(&mut linker, |s| &mut s.key_value)?;
    bindings::postgres::add_to_linker::<_, PostgresData>(&mut linker, |s| &mut s.postgres)?;
    bindings::redis::add_to_linker::<_, RedisData>(&mut linker, |s| &mut s.redis)?;
    bindings::sqlite::add_to_linker::<_, SqliteData>(&mut linker, |s| &mut s.sqlite)?;
    bindings::variables::add_to_linker::<_, VariablesData>(&mut linker, |s| &mut s.variables)?;
    Ok(linker)
}

/// The time that guest code has run in an instance.
///
/// Measured only for its cost: Spin measures this time at every transition between guest and host, and
/// without it host calls would be faster here than in Spin.
#[derive(Debug, Default)]
pub struct CpuTime {
    entered: Option<Instant>,
    elapsed: Duration,
}

impl CpuTime {
    /// Records a transition from the guest to the host or back.
    pub fn record(&mut self, hook: CallHook) {
        if hook.entering_host() || matches!(hook, CallHook::ReturningFromWasm) {
            if let Some(entered) = self.entered.take() {
                self.elapsed += entered.elapsed();
            }
        } else {
            self.entered = Some(Instant::now());
        }
    }
}
