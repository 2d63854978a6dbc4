//! Loads the application and runs the triggers of one type.

use std::{collections::HashMap, path::Path, sync::Arc};

use anyhow::Context as _;
use tokio::net::TcpListener;

use crate::{
    assets,
    cli::{HttpArgs, TriggerType, Up},
    component::{self, LoadedComponent, Shared},
    engine,
    hosts::http::Loopback,
    http::{ReuseOptions, Server},
    manifest::App,
    redis_trigger,
    runtime_config::RuntimeConfig,
    shutdown, state,
    stdio::ComponentLogs,
    variables::{Dotenv, Provider, Variables},
};

/// Runs the triggers of one type until a shutdown is requested. `assets` has the components' files.
///
/// # Errors
/// If the application cannot be started, or a trigger fails.
pub async fn run(up: &Up, kind: TriggerType, assets: &Path) -> anyhow::Result<()> {
    let Prepared { app, config, variables } = prepare(up)?;
    let logs = ComponentLogs { directory: config.log_dir.clone() };
    logs.create_directory()?;
    report_stores(&app, &config);

    let loopback = Arc::new(Loopback::default());
    let shared =
        Shared { variables: variables.clone(), logs, config, assets: assets.to_owned(), loopback: loopback.clone() };
    let linker = state::linker(&engine::build()?)?;
    let ids = match kind {
        TriggerType::Http => app.http_components(),
        TriggerType::Redis => app.redis_components(),
    };
    let components = component::load(&app, ids, &linker, &shared)?;

    tokio::select! {
        result = async {
            match kind {
                TriggerType::Http => serve(&app, &up.http, components, &loopback).await,
                TriggerType::Redis => redis_trigger::run(&app, &variables, &components).await,
            }
        } => result,
        () = shutdown::requested(true) => Ok(()),
    }
}

/// A checked application, ready to start.
pub struct Prepared {
    /// The manifest.
    pub app: App,
    /// The runtime config with its stores.
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
    let state_dir = up.state_dir.clone().unwrap_or_else(|| app.root.join(".spin"));
    let config = RuntimeConfig::load(up.runtime_config_file.as_deref(), &state_dir)?;
    let mut variables = app.variables()?;
    variables.add_provider(Provider::Static(up.variable.iter().cloned().collect()));
    variables.add_provider(Provider::Env(Dotenv::new(".env")));
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

/// Prints where the default stores are.
fn report_stores(app: &App, config: &RuntimeConfig) {
    if app.components.values().any(|component| !component.sqlite_databases.is_empty()) {
        eprintln!("Storing default SQLite data to {}.", config.sqlite);
    }
    if app.components.values().any(|component| !component.key_value_stores.is_empty()) {
        eprintln!("Storing default key-value data to {}.", config.key_value);
    }
}

async fn serve(
    app: &App,
    args: &HttpArgs,
    components: HashMap<String, Arc<LoadedComponent>>,
    loopback: &Loopback,
) -> anyhow::Result<()> {
    let listener = TcpListener::bind(args.listen).await.with_context(|| format!("cannot listen on {}", args.listen))?;
    let reuse = ReuseOptions {
        max_requests: args.max_instance_reuse_count,
        max_concurrent: args.max_instance_concurrent_reuse_count,
        idle_timeout: args.idle_instance_timeout,
    };
    let server = Arc::new(Server::new(app, components, reuse)?);
    loopback.set_server(server.clone());
    server.serve(listener).await
}
