//! Compiles components and creates the stores for their instances.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context as _;
use wasmtime::{
    Engine, Store,
    component::{Component, InstancePre, Linker, ResourceTable},
};
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder};
use wasmtime_wasi_http::WasiHttpCtx;

use crate::{
    connection_limit::ConnectionLimit,
    hosts::{
        http::{Clients, InboundHttp, Loopback, OutboundHttp, tls_config},
        key_value::KeyValueHost,
        postgres::{PostgresHost, PostgresPools},
        redis::RedisHost,
        sqlite::SqliteHost,
        variables::VariablesHost,
    },
    manifest::{self, App},
    outbound::AllowedHosts,
    runtime_config::RuntimeConfig,
    state::{CpuTime, State},
    stdio::ComponentLogs,
    stores::{Database, KeyValueStore},
    variables::Variables,
};

/// Configuration and resources that all components of a process share.
pub struct Shared {
    /// The application's variables.
    pub variables: Arc<Variables>,
    /// Where the components' output is written.
    pub logs: ComponentLogs,
    /// The default stores, and the limits of connections.
    pub config: RuntimeConfig,
    /// A directory with one subdirectory of files for each component that has files.
    pub assets: PathBuf,
    /// The HTTP server of this process, if it has one, for requests from component to component.
    pub loopback: Arc<Loopback>,
}

/// A compiled component with everything that its instances need.
pub struct LoadedComponent {
    id: Arc<str>,
    pre: InstancePre<State>,
    files: Option<PathBuf>,
    allowed: Arc<AllowedHosts>,
    key_value: Option<Arc<KeyValueStore>>,
    sqlite: Option<Arc<Database>>,
    postgres: Arc<PostgresPools>,
    postgres_connections: ConnectionLimit,
    redis_connections: ConnectionLimit,
    clients: Clients,
    variables: Arc<Variables>,
    logs: ComponentLogs,
    loopback: Arc<Loopback>,
}

/// Compiles the components with these ids.
///
/// # Errors
/// If a file is missing, is not a WebAssembly component, or imports an interface that this host does not have.
pub fn load<'a>(
    app: &App,
    ids: impl IntoIterator<Item = &'a str>,
    linker: &Linker<State>,
    shared: &Shared,
) -> anyhow::Result<HashMap<String, Arc<LoadedComponent>>> {
    let tls = tls_config()?;
    let clients = Clients::new(tls.clone());
    ids.into_iter()
        .map(|id| {
            let section = app.components.get(id).context("the component is not there")?;
            let pre = compile(linker.engine(), linker, &app.root.join(&section.source))
                .with_context(|| format!("cannot load the component {id:?}"))?;
            let pools = Arc::new(PostgresPools::new(tls.clone()));
            let component = LoadedComponent::new(id, section, pre, pools, &clients, shared);
            Ok((id.to_owned(), Arc::new(component)))
        })
        .collect()
}

fn compile(engine: &Engine, linker: &Linker<State>, source: &Path) -> anyhow::Result<InstancePre<State>> {
    let bytes = std::fs::read(source)
        .with_context(|| format!("cannot read {}; has it been built for wasm32-wasip2?", source.display()))?;
    let component = Component::new(engine, bytes)
        .map_err(anyhow::Error::from)
        .with_context(|| format!("{} is no WebAssembly component", source.display()))?;
    linker
        .instantiate_pre(&component)
        .map_err(anyhow::Error::from)
        .context("it imports an interface that this host does not have")
}

impl LoadedComponent {
    fn new(
        id: &str,
        section: &manifest::Component,
        pre: InstancePre<State>,
        postgres: Arc<PostgresPools>,
        clients: &Clients,
        shared: &Shared,
    ) -> Self {
        Self {
            id: id.into(),
            pre,
            files: (!section.files.is_empty()).then(|| shared.assets.join(id)),
            allowed: Arc::new(AllowedHosts::new(&section.allowed_outbound_hosts, shared.variables.clone())),
            key_value: (!section.key_value_stores.is_empty()).then(|| shared.config.key_value.clone()),
            sqlite: (!section.sqlite_databases.is_empty()).then(|| shared.config.sqlite.clone()),
            postgres,
            postgres_connections: shared.config.postgres_connections.clone(),
            redis_connections: shared.config.redis_connections.clone(),
            clients: clients.clone(),
            variables: shared.variables.clone(),
            logs: shared.logs.clone(),
            loopback: shared.loopback.clone(),
        }
    }

    /// The component's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The compiled component with its imports resolved.
    pub fn pre(&self) -> &InstancePre<State> {
        &self.pre
    }

    /// Creates the store for a new instance.
    ///
    /// # Errors
    /// If the directory of its files or a log file cannot be opened.
    pub fn store(&self) -> anyhow::Result<Store<State>> {
        let state = State {
            table: ResourceTable::new(),
            wasi: self.wasi()?,
            http: WasiHttpCtx::new(),
            outbound_http: OutboundHttp {
                allowed: self.allowed.clone(),
                clients: self.clients.clone(),
                loopback: self.loopback.clone(),
            },
            inbound_http: InboundHttp,
            key_value: KeyValueHost::new(self.key_value.clone()),
            postgres: PostgresHost::new(self.allowed.clone(), self.postgres.clone(), self.postgres_connections.clone()),
            redis: RedisHost::new(self.allowed.clone(), self.redis_connections.clone()),
            sqlite: SqliteHost::new(self.sqlite.clone()),
            variables: VariablesHost { component: self.id.clone(), variables: self.variables.clone() },
            cpu: CpuTime::default(),
        };
        let mut store = Store::new(self.pre.engine(), state);
        store.call_hook(|mut store, hook| {
            store.data_mut().cpu.record(hook);
            Ok(())
        });
        // Without a deadline the guest traps immediately. This one is never reached.
        store.set_epoch_deadline(u64::MAX / 2);
        Ok(store)
    }

    fn wasi(&self) -> anyhow::Result<WasiCtx> {
        let mut wasi = WasiCtxBuilder::new();
        if let Some(files) = &self.files {
            wasi.preopened_dir(files, "/", FsPerms::ReadOnly)?;
        }
        wasi.stdout(self.logs.stream(&self.id, "stdout")?);
        wasi.stderr(self.logs.stream(&self.id, "stderr")?);
        Ok(wasi.build())
    }
}
