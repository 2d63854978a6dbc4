//! Loads the application and runs the triggers of one type.

use std::{collections::HashMap, io::ErrorKind, net::SocketAddr, path::Path, sync::Arc};

use anyhow::{Context as _, bail};
use tokio::net::TcpListener;

use crate::{
    assets,
    cli::{HttpArgs, TriggerType, Up, VariableSource},
    component::{self, LoadedComponent, Shared},
    engine::{self, EngineOptions},
    hosts::http::Loopback,
    http::{ReuseOptions, Server},
    manifest::App,
    redis_trigger,
    runtime_config::{Directories, RuntimeConfig},
    shutdown, state,
    stdio::ComponentLogs,
    variables::{Provider, Variables},
};

/// How many ports `--find-free-port` tries.
const MAX_PORTS: u16 = 10;

/// Runs the triggers of one type until a shutdown is requested.
///
/// # Errors
/// If the application cannot be started, or a trigger fails.
pub async fn run(up: &Up, kind: TriggerType) -> anyhow::Result<()> {
    let Prepared { app, config, variables } = prepare(up)?;
    let logs = ComponentLogs { directory: config.log_dir.clone(), quiet: up.quiet };
    logs.create_directory()?;
    prepare_stores(up, &app, &config).await?;

    // Without a parent process, which would have copied them, this process copies the components' files.
    let own_assets = match &up.working_dir {
        Some(_) => None,
        None => Some(prepare_assets(&app)?),
    };
    let assets = match (&up.working_dir, &own_assets) {
        (Some(prepared), _) => prepared.clone(),
        (None, Some(own)) => own.path().to_owned(),
        (None, None) => bail!("there is no working directory"),
    };
    let shared = Shared {
        variables: variables.clone(),
        logs,
        max_memory: up.max_instance_memory.or(config.max_instance_memory),
        config,
        assets,
        loopback: Arc::new(Loopback::default()),
    };
    let options = EngineOptions { disable_cache: up.disable_cache, disable_pooling: up.disable_pooling };
    let linker = state::linker(&engine::build(options)?)?;
    let ids = match kind {
        TriggerType::Http => app.http_components(),
        TriggerType::Redis => app.redis_components(),
    };
    let components = component::load(&app, ids, &linker, &shared)?;

    tokio::select! {
        result = async {
            match kind {
                TriggerType::Http => serve(&app, &up.http, components, &shared.loopback).await,
                TriggerType::Redis => redis_trigger::run(&app, &variables, &components).await,
            }
        } => result,
        () = shutdown::requested(up.working_dir.is_some()) => Ok(()),
    }
}

/// A checked application, ready to start.
pub struct Prepared {
    /// The manifest.
    pub app: App,
    /// The runtime config with its stores. Its providers have been moved to `variables`.
    pub config: RuntimeConfig,
    /// The variables. Every required one has a value.
    pub variables: Arc<Variables>,
}

/// Loads and checks the manifest, the runtime config and the variables that the command line names.
///
/// # Errors
/// If something is missing, malformed or not supported by this host.
pub fn prepare(up: &Up) -> anyhow::Result<Prepared> {
    let mut app = App::load(&up.from)?;
    if !up.components.is_empty() {
        app.retain(&up.components)?;
    }
    for component in app.components.values_mut() {
        component.environment.extend(up.env.iter().cloned());
    }
    let directories = Directories { state: up.state_dir.clone(), log: up.log_dir.clone() };
    let mut config = RuntimeConfig::load(up.runtime_config_file.as_deref(), &app.root, &directories)?;
    for (id, component) in &app.components {
        config.ensure_stores(id, &component.key_value_stores, &component.sqlite_databases)?;
    }
    let mut variables = app.variables()?;
    variables.add_provider(Provider::Static(VariableSource::read_all(&up.variable)?));
    for provider in config.providers.drain(..) {
        variables.add_provider(provider);
    }
    variables.ensure_required()?;
    Ok(Prepared { app, config, variables: Arc::new(variables) })
}

/// Copies the components' files into a temporary directory, which is removed when the returned value is dropped.
///
/// # Errors
/// See [`assets::copy`].
pub fn prepare_assets(app: &App) -> anyhow::Result<tempfile::TempDir> {
    let directory = tempfile::Builder::new().prefix("local-host-").tempdir()?;
    assets::copy(app, directory.path())?;
    Ok(directory)
}

/// Applies `--sqlite` and `--key-value` to the default stores, and prints where the default stores are.
async fn prepare_stores(up: &Up, app: &App, config: &RuntimeConfig) -> anyhow::Result<()> {
    let uses_default = |labels: fn(&crate::manifest::Component) -> &Vec<String>| {
        app.components.values().any(|component| labels(component).iter().any(|label| label == "default"))
    };
    let database = config.sqlite.get("default").context("there is no default database")?;
    for statements in &up.sqlite {
        let statements = match statements.strip_prefix('@') {
            Some(path) => std::fs::read_to_string(Path::new(path))
                .with_context(|| format!("cannot read the statements in {path}"))?,
            None => statements.clone(),
        };
        let connection = database.connect();
        tokio::task::block_in_place(|| connection.execute_batch(&statements))
            .with_context(|| format!("failed to execute: {statements}"))?;
    }
    let store = config.key_value.get("default").context("there is no default store")?;
    for (key, value) in &up.key_value {
        store.open("default").await?.set(key, value.as_bytes()).await?;
    }
    if uses_default(|component| &component.sqlite_databases) {
        eprintln!("Storing default SQLite data to {database}.");
    }
    if uses_default(|component| &component.key_value_stores) {
        eprintln!("Storing default key-value data to {store}.");
    }
    Ok(())
}

async fn serve(
    app: &App,
    args: &HttpArgs,
    components: HashMap<String, Arc<LoadedComponent>>,
    loopback: &Loopback,
) -> anyhow::Result<()> {
    let listener = listen(args.listen, args.find_free_port).await?;
    let reuse = ReuseOptions {
        max_requests: args.max_instance_reuse_count,
        max_concurrent: args.max_instance_concurrent_reuse_count,
        request_timeout: args.request_timeout,
        idle_timeout: args.idle_instance_timeout,
    };
    let server = Arc::new(Server::new(app, components, reuse, listener.local_addr()?)?);
    loopback.set_server(server.clone());
    server.serve(listener).await
}

async fn listen(mut address: SocketAddr, find_free_port: bool) -> anyhow::Result<TcpListener> {
    for _ in 0..MAX_PORTS {
        match TcpListener::bind(address).await {
            Ok(listener) => return Ok(listener),
            Err(error) if error.kind() == ErrorKind::AddrInUse && find_free_port => {
                let next = address.port().checked_add(1).context("there are no more ports")?;
                address.set_port(next);
            }
            Err(error) if error.kind() == ErrorKind::AddrInUse => bail!(
                "{address} is already in use; end what listens there, choose another address with \
                 `--listen`, or let `--find-free-port` choose one"
            ),
            Err(error) => return Err(error).context(format!("unable to listen on {address}")),
        }
    }
    bail!("no port up to {} is free; try `--listen` with another port", address.port())
}
