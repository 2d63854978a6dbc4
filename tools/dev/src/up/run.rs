//! Builds and starts everything, supervises it, and stops it on a signal.

use std::{
    env,
    io::ErrorKind,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
};

use super::{
    Options,
    data_directory::{DataDirectory, write_atomically},
    demo,
    service::{Event, Service},
    sweeper::SweepTimer,
};
use crate::{
    app::{self, Settings, parse_serving_line},
    engine::Engine,
    http::Client,
    poll::{self, Probe},
    ports, redis, root,
    variables::{Variables, redis_host},
};

/// Interval between two checks of the services.
const TICK_INTERVAL: Duration = Duration::from_millis(100);
/// How long the app may be unready before the reason is printed.
const NOTICE_DELAY: Duration = Duration::from_secs(5);
/// Number of lines shown of the output of a service that ended.
const TAIL_LINES: usize = 15;

/// Starts everything. Returns after a signal to stop, when every process has ended. A service that fails after the start
/// is restarted and reported.
pub fn run(options: &Options) -> Result<()> {
    let root = root::find()?;
    let directory = DataDirectory::open(&root.join(&options.directory))?;
    if options.fresh {
        directory.clear()?;
    }
    let listen = if options.services { options.listen } else { choose_address(options.listen)? };
    let stop = stop_flag()?;
    let mut variables = directory.load_variables()?;
    let exported = Variables::exported(env::vars_os())?;
    let redis = set_stores(options, &directory, &mut variables, &exported)?;
    directory.save_variables(&variables)?;
    // The command line counts more than the environment, and that more than the file.
    let replaced = variables.add_exported(&exported);
    variables.set_shop_url(listen);
    // Own pages are tried from any server of this machine.
    variables.set_default("cors_origins", "localhost");
    options.ledger.as_deref().map_or(Ok(()), |url| variables.set_ledger(url))?;
    options.redis.as_deref().map_or(Ok(()), |url| variables.set_redis(url))?;
    if variables.find("redis_host").is_none() {
        bail!(
            "several servers of a Redis Cluster need two exported variables: SPIN_VARIABLE_REDIS_URL names them, and \
             SPIN_VARIABLE_REDIS_HOST allows all of the cluster (docs/configuration.md)"
        );
    }

    let mut services: Vec<_> = redis.into_iter().collect();
    let mut sweeper = None;
    if options.services {
        write_atomically(&root.join(".env"), &variables.to_lines())?;
        println!(
            "\n  Redis runs, and .env has the variables. Start the app in another terminal: spin up, or spin watch"
        );
    } else {
        let engine = Engine::discover(options.engine.as_deref())?;
        let (state, log) = (directory.path_to("state"), Some(directory.path_to("logs/app.log")));
        let settings = Settings { log, ..Settings::new(root, engine, listen, state, variables.clone()) };
        println!("starting the app on the engine {} …", settings.engine);
        let start = Box::new(move || settings.spawn());
        let mut app = Service::start("app", directory.path_to("pids/app"), Duration::from_millis(500), start)?;
        let url = wait_until_ready(&mut app, variables.get("metrics_token"), &stop)?;
        // The app is stopped first, because it uses Redis.
        services.insert(0, app);
        sweeper = Some(start_jobs(options, &url, &variables));
    }
    let data = options.directory.display();
    match exported.find("admin_token") {
        Some(_) => println!("  their token printenv SPIN_VARIABLE_ADMIN_TOKEN"),
        None => println!("  their token grep ADMIN_TOKEN {data}/env"),
    }
    println!("  Secrets     {data}/env      Logs  {data}/logs/      Ids  {data}/pids/");
    if !replaced.is_empty() {
        println!("  Exported    {replaced}; the other variables are from {data}/env");
    }
    println!("  Ctrl-C ends it; the data stays in {data}/.\n");

    let url = format!("http://{listen}");
    let spin = Client::new(&url, Duration::from_secs(1));
    supervise(&mut services, &stop, || {
        let is_ready = || spin.send("GET", "/readyz", variables.get("metrics_token"), &Value::Null);
        if sweeper.is_none() && is_ready().is_ok_and(|response| response.status == 200) {
            sweeper = Some(start_jobs(options, &url, &variables));
        }
    });
    println!("ending …");
    services.iter_mut().for_each(Service::stop);
    println!("ended. The next start finds the data again.");
    Ok(())
}

/// The address to listen on, if it is free; a free port for port 0, so that a restart listens on the same one.
fn choose_address(mut listen: SocketAddr) -> Result<SocketAddr> {
    if listen.port() == 0 {
        listen.set_port(ports::pick_unused()?);
    }
    ports::try_bind(listen).map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => {
            anyhow!("{listen} is in use: end what listens there, or choose another with --listen")
        }
        _ => anyhow!("cannot listen on {listen} ({error}): choose another with --listen"),
    })?;
    if !listen.ip().is_loopback() {
        println!(
            "warning: {listen} can be reached from other machines, and the sandbox signs anybody in as any user: use this \
             for development only (deploy/README.md has kits without it)"
        );
    }
    Ok(listen)
}

/// Sets the variables of the ledger and of Redis, which is started unless a URL names one.
fn set_stores(
    options: &Options,
    directory: &DataDirectory,
    variables: &mut Variables,
    exported: &Variables,
) -> Result<Option<Service>> {
    variables.set_ledger(options.ledger.as_deref().or(exported.find("ledger")).unwrap_or("sqlite"))?;
    if variables.get("ledger") != "sqlite" {
        check_reachable(variables.get("ledger_host"), "start that PostgreSQL, or leave out --ledger for SQLite")?;
    }
    let Some(urls) = options.redis.as_deref().or(exported.find("redis_url")) else {
        return start_redis(directory, variables).map(Some);
    };
    variables.set_redis(urls)?;
    let first = redis_host(variables.get("doorbell_url"))?;
    check_reachable(&first, "start that Redis, or leave out --redis for one of its own")?;
    Ok(None)
}

/// Creates the demo sale, starts the sweeper, and says where to look.
fn start_jobs(options: &Options, url: &str, variables: &Variables) -> Option<SweepTimer> {
    println!("\n  Stampede serves {url}");
    if !options.no_demo {
        let client = Client::new(url, Duration::from_secs(30));
        match demo::seed(&client, variables.get("admin_token")) {
            Ok(starts_at) => println!("  Buyers      {url}/sale?activity={}   (opens {starts_at})", demo::ACTIVITY),
            Err(error) => println!("  no demo sale: {error:#}"),
        }
    }
    println!("  Operators   {url}/admin");
    (!options.no_sweeper).then(|| SweepTimer::start(url, variables.get("cron_token")))
}

/// Checks a server that was given on the command line. Otherwise the app would wait for it without a clear message.
fn check_reachable(url: &str, advice: &str) -> Result<()> {
    let host = url.split_once("://").map_or(url, |(_, host)| host);
    ports::try_connect(host).map_err(|error| anyhow!("no server answers at {host} ({error}): {advice}"))
}

/// Returns a flag that the first Ctrl-C sets. A second Ctrl-C exits at once.
fn stop_flag() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop))?;
        flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

fn start_redis(directory: &DataDirectory, variables: &mut Variables) -> Result<Service> {
    let port = directory.redis_port(variables)?;
    variables.set_redis(&redis::url(port))?;
    let (data, log) = (directory.path_to("redis"), directory.path_to("logs/redis.log"));
    let start = Box::new(move || redis::spawn(&data, port, Some(&log), &[]));
    let mut service = Service::start("redis", directory.path_to("pids/redis"), Duration::from_millis(100), start)?;
    if let Some(process) = service.process() {
        redis::wait_until_ready(process, port)?;
    }
    Ok(service)
}

/// Waits until `GET /readyz` returns `200` and prints the reason if that takes long. Returns the app's URL.
fn wait_until_ready(app: &mut Service, token: &str, stop: &AtomicBool) -> Result<String> {
    let process = app.process().context("the app does not run")?;
    let (started, mut client, mut reported) = (Instant::now(), None, String::new());
    let ready = poll::until("the app to be ready", app::START_TIMEOUT, || {
        if stop.load(Ordering::Relaxed) {
            bail!("ended before the app was ready");
        }
        if let Some(status) = process.exited() {
            bail!("the app ended with {status}");
        }
        let Some(url) = process.find_line(parse_serving_line) else {
            return Ok(Probe::Pending("no address yet".to_owned()));
        };
        let client = client.get_or_insert_with(|| Client::new(&url, Duration::from_secs(10)));
        let state = match client.send("GET", "/readyz", token, &Value::Null) {
            Ok(response) if response.status == 200 => return Ok(Probe::Ready(url)),
            Ok(response) => format!("GET /readyz answered {} {}", response.status, response.body),
            Err(error) => format!("{error:#}"),
        };
        if started.elapsed() > NOTICE_DELAY && state != reported {
            println!("the app is not ready yet: {state}");
            reported.clone_from(&state);
        }
        Ok(Probe::Pending(state))
    });
    ready.with_context(|| format!("the app wrote:\n{}", tail(&process.output())))
}

/// Restarts services that end, until a signal to stop. Calls `tick` in each round.
fn supervise(services: &mut [Service], stop: &AtomicBool, mut tick: impl FnMut()) {
    let mut app_restarted = false;
    while !stop.load(Ordering::Relaxed) {
        tick();
        for service in services.iter_mut() {
            let Some(event) = service.tick(Instant::now()) else { continue };
            println!("{}: {event}", service.name());
            match event {
                Event::Ended { output, .. } => println!("{}", tail(&output)),
                Event::Started if service.name() == "app" => app_restarted = true,
                Event::Started | Event::Failed(_) => {}
            }
        }
        if app_restarted
            && let Some(url) = services[0].process().and_then(|process| process.find_line(parse_serving_line))
        {
            println!("app: serves {url} again");
            app_restarted = false;
        }
        sleep(TICK_INTERVAL);
    }
}

fn tail(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    let from = lines.len().saturating_sub(TAIL_LINES);
    lines[from..].iter().map(|line| format!("  | {line}\n")).collect()
}
