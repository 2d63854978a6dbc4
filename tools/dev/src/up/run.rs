//! The course of `up`: build, start, say where to look, watch, end.

use std::{
    io::ErrorKind,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
};

use super::{
    Options, demo,
    directory::Directory,
    service::{Event, Service},
    sweeper::Sweeper,
};
use crate::{
    app::{self, Settings, served_at},
    build,
    engine::Engine,
    http::Client,
    poll::{self, Look},
    ports, redis, root,
    variables::Variables,
};

/// How often the services are looked at.
const TICK: Duration = Duration::from_millis(100);
/// How long the app may take to be ready before anything is said of it.
const QUIET: Duration = Duration::from_secs(5);
/// Lines of a dead service's output that are shown.
const LAST_WORDS: usize = 15;

/// Starts everything, and returns when it was asked to end and everything has ended.
///
/// # Errors
/// When the start fails. Later failures are repaired and said.
pub fn run(options: &Options) -> Result<()> {
    let root = root::find()?;
    let engine = Engine::discover(options.engine.as_deref())?;
    let directory = Directory::open(&root.join(&options.directory))?;
    if options.fresh {
        directory.clear()?;
    }
    let mut listen = options.listen;
    if listen.port() == 0 {
        // Picked here and not by the engine: a restart must find the same one.
        listen.set_port(ports::free()?);
    }
    ports::try_listen(listen).map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => {
            anyhow!("{listen} is in use: end what listens there, or choose another with --listen")
        }
        _ => anyhow!("cannot listen on {listen} ({error}): choose another with --listen"),
    })?;
    if !options.no_build {
        build::all(&root, &engine)?;
    }

    let stop = stop_flag()?;
    let mut variables = directory.variables()?;
    let mut services = Vec::new();
    variables.set_ledger(options.ledger.as_deref().unwrap_or("sqlite"))?;
    if variables.get("ledger") != "sqlite" {
        reach(variables.get("ledger_host"), "start that PostgreSQL, or leave out --ledger for SQLite")?;
    }
    match &options.redis {
        Some(url) => {
            variables.set_redis(url)?;
            reach(variables.get("redis_host"), "start that Redis, or leave out --redis for one of its own")?;
        }
        None => services.push(start_redis(&directory, &mut variables)?),
    }
    directory.keep(&variables)?;

    let settings = Settings {
        root,
        engine,
        listen,
        directory: directory.at("state"),
        variables: variables.clone(),
        log: Some(directory.at("logs/app.log")),
        manifest: "spin.toml".into(),
        components: vec![],
        environment: vec![],
    };
    println!("starting the app on the engine {} …", settings.engine);
    let start = Box::new(move || settings.spawn());
    let mut app = Service::start("app", directory.at("pids/app"), Duration::from_millis(500), start)?;
    let url = wait_until_ready(&mut app, &stop)?;
    services.insert(0, app);

    let _sweeper = (!options.no_sweeper).then(|| Sweeper::start(&url, variables.get("cron_token")));
    println!("\n  Stampede serves {url}");
    if !options.no_demo {
        let client = Client::new(&url, Duration::from_secs(30));
        match demo::seed(&client, variables.get("admin_token")) {
            Ok(starts_at) => println!("  Buyers      {url}/sale?activity={}   (opens {starts_at})", demo::ACTIVITY),
            Err(error) => println!("  no demo sale: {error:#}"),
        }
    }
    println!("  Operators   {url}/admin");
    let kept = options.directory.display();
    println!("  their token grep ADMIN_TOKEN {kept}/env");
    println!("  Secrets     {kept}/env      Logs  {kept}/logs/      Ids  {kept}/pids/");
    println!("  Ctrl-C ends it; the data stays in {kept}/.\n");

    watch(&mut services, &stop);
    println!("ending …");
    // The app first: it is the one that talks to Redis.
    services.iter_mut().for_each(Service::stop);
    println!("ended. The next start finds the data again.");
    Ok(())
}

/// What was named on the command line has to be there: the app would wait for it, and say little.
fn reach(url: &str, advice: &str) -> Result<()> {
    let host = url.split_once("://").map_or(url, |(_, host)| host);
    ports::reach(host).map_err(|error| anyhow!("nobody answers at {host} ({error}): {advice}"))
}

/// Set by the first Ctrl-C; a second one does not wait for a clean end.
fn stop_flag() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop))?;
        flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

fn start_redis(directory: &Directory, variables: &mut Variables) -> Result<Service> {
    let port = directory.redis_port(variables)?;
    variables.set_redis(&redis::url(port))?;
    let (data, log) = (directory.at("redis"), directory.at("logs/redis.log"));
    let start = Box::new(move || redis::spawn(&data, port, Some(&log), &[]));
    let mut service = Service::start("redis", directory.at("pids/redis"), Duration::from_millis(100), start)?;
    if let Some(process) = service.process() {
        redis::wait_until_ready(process, port)?;
    }
    Ok(service)
}

/// Waits for `GET /readyz`, and says what is missing when that takes a while; answers the app's address.
fn wait_until_ready(app: &mut Service, stop: &AtomicBool) -> Result<String> {
    let process = app.process().context("the app does not run")?;
    let (begun, mut client, mut said) = (Instant::now(), None, String::new());
    let ready = poll::until("the app to be ready", app::PATIENCE, || {
        if stop.load(Ordering::Relaxed) {
            bail!("ended before the app was ready");
        }
        if let Some(status) = process.exited() {
            bail!("the app ended with {status}");
        }
        let Some(url) = process.line(served_at) else { return Ok(Look::Waiting("no address yet".to_owned())) };
        let client = client.get_or_insert_with(|| Client::new(&url, Duration::from_secs(10)));
        let seen = match client.get("/readyz") {
            Ok(answer) if answer.status == 200 => return Ok(Look::Done(url)),
            Ok(answer) => format!("GET /readyz answered {} {}", answer.status, answer.body),
            Err(error) => format!("{error:#}"),
        };
        if begun.elapsed() > QUIET && seen != said {
            println!("the app is not ready yet: {seen}");
            said.clone_from(&seen);
        }
        Ok(Look::Waiting(seen))
    });
    ready.with_context(|| format!("the app wrote:\n{}", last_lines(&process.output())))
}

fn watch(services: &mut [Service], stop: &AtomicBool) {
    let mut app_is_new = false;
    while !stop.load(Ordering::Relaxed) {
        for service in services.iter_mut() {
            let Some(event) = service.tick(Instant::now()) else { continue };
            println!("{}: {event}", service.name());
            match event {
                Event::Ended { output, .. } => println!("{}", last_lines(&output)),
                Event::Started if service.name() == "app" => app_is_new = true,
                Event::Started | Event::Failed(_) => {}
            }
        }
        if app_is_new && let Some(url) = services[0].process().and_then(|process| process.line(served_at)) {
            println!("app: serves {url} again");
            app_is_new = false;
        }
        sleep(TICK);
    }
}

fn last_lines(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    let from = lines.len().saturating_sub(LAST_WORDS);
    lines[from..].iter().map(|line| format!("  | {line}\n")).collect()
}
