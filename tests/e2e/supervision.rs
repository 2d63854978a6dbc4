//! `scripts/up` as a black box: it restarts killed processes, stops all of them, and keeps the data (G1).

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use dev::{
    documents,
    engine::Engine,
    poll::{self, Probe},
    ports,
    process::Process,
    root,
    variables::Variables,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::json;
use support::{HttpClient, Shop, eventually, eventually_is};
use tempfile::TempDir;

/// `scripts/up` at an address, with a data directory.
fn start_command(listen: &str, directory: &Path) -> Command {
    let mut command = Command::new(root::find().expect("the project").join("scripts/up"));
    command.args(["--no-build", "--listen", listen, "--directory"]).arg(directory);
    command
}

/// A running `up` with its own data directory.
struct Up {
    process: Process,
    url: String,
    directory: PathBuf,
}

impl Up {
    fn start(directory: &Path, port: u16, extra: &[&str]) -> Self {
        Self::start_with(directory, port, extra, &[])
    }

    /// As [`Up::start`], with additional environment variables.
    fn start_with(directory: &Path, port: u16, extra: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut command = start_command(&format!("127.0.0.1:{port}"), directory);
        command.args(extra).envs(environment.iter().copied());
        command.arg("--engine").arg(Engine::discover(None).expect("an engine").to_string());
        let mut process = Process::spawn("up", &mut command, None).expect("up");
        let url = process.wait_for_line("where to look", Duration::from_secs(300), |line| {
            line.trim().strip_prefix("Stampede serves ").map(str::to_owned)
        });
        Self { url: url.expect("started"), process, directory: directory.to_owned() }
    }

    /// Reads the variables that `up` generated.
    fn variables(&self) -> Variables {
        let mut variables = Variables::default();
        variables.read_lines(&fs::read_to_string(self.directory.join("env")).expect("env")).expect("variables");
        variables
    }

    /// Process id of `app` or `redis`.
    fn pid(&self, name: &str) -> Pid {
        let text = fs::read_to_string(self.directory.join("pids").join(name)).unwrap_or_default();
        Pid::from_raw(text.trim().parse().unwrap_or_else(|_| panic!("{name} has the id {text:?}")))
    }

    fn shop(&self) -> Shop {
        Shop { http: HttpClient::new(&self.url), variables: self.variables() }
    }

    /// Stops it with SIGINT, as Ctrl-C does, and waits for its exit.
    fn stop(mut self) {
        kill(Pid::from_raw(self.process.id().cast_signed()), Signal::SIGINT).expect("a signal");
        let ended = poll::until("up to end", Duration::from_secs(30), || {
            Ok(self.process.exited().map_or(Probe::Pending("it runs"), Probe::Ready))
        });
        assert!(ended.expect("an end").success(), "{}", self.process.output());
    }
}

/// Whether a process has exited; a zombie counts as exited.
fn has_exited(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    kill(pid, None).is_err() || stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z'))
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_processes_restart_and_orders_survive() {
    let temp_dir = TempDir::new().expect("a directory");
    let port = ports::pick_unused().expect("a port");
    let up = Up::start(temp_dir.path(), port, &["--no-demo"]);
    let shop = up.shop();
    shop.publish("up").await;
    let (first, jwt) = shop.place_order("up", "ada").await;
    shop.wait_until_pending(&first, &jwt).await;

    for name in ["app", "redis", "app"] {
        // The app exits with Redis, because its Redis trigger does.
        let restarted: &[&str] = if name == "redis" { &["redis", "app"] } else { &["app"] };
        let before: Vec<_> = restarted.iter().map(|name| up.pid(name)).collect();
        kill(before[0], Signal::SIGKILL).expect("killed");
        eventually(&format!("another of {restarted:?}"), async || {
            let now: Vec<_> = restarted.iter().map(|name| up.pid(name)).collect();
            let all_changed = now.iter().zip(&before).all(|(now, before)| now != before);
            if all_changed { Ok(()) } else { Err(format!("{now:?}")) }
        })
        .await;
        shop.wait_until_ready().await;
        shop.wait_until_pending(&first, &jwt).await;
        let (next_order, jwt) = shop.place_order("up", &format!("after-{name}-{}", before[0])).await;
        shop.wait_until_pending(&next_order, &jwt).await;
    }
    assert!(up.process.output().contains("starting it again"), "{}", up.process.output());
    up.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sale_that_the_readme_simulates_keeps_every_invariant() {
    let temp_dir = TempDir::new().expect("a directory");
    let up = Up::start(temp_dir.path(), ports::pick_unused().expect("a port"), &["--no-demo"]);
    let root = root::find().expect("the project");
    let commands = documents::commands(&fs::read_to_string(root.join("README.md")).expect("the README"));
    let command = commands.iter().find(|command| command.starts_with("scripts/stampede ")).expect("the command");
    let mut simulation = Command::new("sh");
    // Cargo builds `ring` again for another CARGO_MANIFEST_DIR.
    simulation.current_dir(root).args(["-c", command]).env_remove("CARGO_MANIFEST_DIR").env("STAMPEDE_URL", &up.url);
    let ended = simulation.env("STAMPEDE_ENV_FILE", up.directory.join("env")).output().expect("a shell");
    let report = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success() && report.contains("Every invariant held."), "{report}{ended:?}");
    up.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_leaves_no_process_and_the_next_start_has_the_data_within_five_seconds() {
    let temp_dir = TempDir::new().expect("a directory");
    let port = ports::pick_unused().expect("a port");
    let up = Up::start(temp_dir.path(), port, &[]);
    let shop = up.shop();
    let demo =
        eventually_is("the demo sale to be seeded", 200, async || shop.http.get("/api/activities/demo", "").await)
            .await
            .json();
    assert_eq!(demo["phase"], "scheduled", "{demo}");
    shop.publish("up").await;
    let (order_no, jwt) = shop.place_order("up", "ada").await;
    shop.wait_until_pending(&order_no, &jwt).await;
    let (app, redis) = (up.pid("app"), up.pid("redis"));
    up.stop();
    assert!(has_exited(app) && has_exited(redis));
    assert!(!ports::accepts_connections(port), "a process still listens on {port}");

    // A busy machine may delay one start: one of up to three must be fast enough.
    let mut start_times = vec![];
    let up = loop {
        let start = Instant::now();
        let up = Up::start(temp_dir.path(), port, &[]);
        start_times.push(start.elapsed());
        if start_times.len() == 3 || start_times.last().is_some_and(|time| *time < Duration::from_secs(5)) {
            break up;
        }
        up.stop();
    };
    let is_fast = start_times.iter().any(|time| *time < Duration::from_secs(5));
    assert!(is_fast, "no start took less than 5 s: {start_times:?}");
    assert_eq!(up.variables(), shop.variables);
    shop.wait_until_pending(&order_no, &jwt).await;
    let demo_after = shop.http.get("/api/activities/demo", "").await.is(200).json();
    assert_eq!(demo_after["starts_at"], demo["starts_at"]);

    // A second `up` with the same directory would write the same files.
    let refused = start_command("127.0.0.1:0", temp_dir.path()).output().expect("up");
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("another scripts/up is running"), "{refused:?}");
    up.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exported_variable_counts_more_than_the_saved_one_until_it_is_exported_no_longer() {
    let temp_dir = TempDir::new().expect("a directory");
    let port = ports::pick_unused().expect("a port");
    let sign_in = async |up: &Up| HttpClient::new(&up.url).post("/sandbox/sign-in", "", &json!({"user": "ada"})).await;
    let start = |environment: &[_]| Up::start_with(temp_dir.path(), port, &["--no-demo", "--no-sweeper"], environment);
    let up = start(&[]);
    sign_in(&up).await.is(200);
    assert!(!up.process.output().contains("Exported"), "{}", up.process.output());
    up.stop();
    let up = start(&[
        ("SPIN_VARIABLE_PAYMENT_PROVIDER", "webhook"),
        ("SPIN_VARIABLE_PAYMENTS_URL", "https://pay.example"),
        ("SPIN_VARIABLE_PAYMENTS_HOST", "https://pay.example"),
    ]);
    sign_in(&up).await.is(404);
    let described = "Exported    payment_provider (so sandbox is off), payments_host, payments_url;";
    let output = up.process.output();
    assert!(output.contains(described) && !output.contains("pay.example"), "{output}");
    up.stop();
    let up = start(&[]);
    sign_in(&up).await.is(200);
    up.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_on_no_command_line_and_killing_up_leaves_no_process() {
    use std::os::unix::fs::PermissionsExt;
    let temp_dir = TempDir::new().expect("a directory");
    let port = ports::pick_unused().expect("a port");
    let up = Up::start(temp_dir.path(), port, &["--no-demo"]);
    let mode = fs::metadata(temp_dir.path().join("env")).expect("env").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "others can read the secrets");
    let variables = up.variables();
    let listing = Command::new("ps").args(["-A", "-o", "args="]).output().expect("ps");
    let listing = String::from_utf8_lossy(&listing.stdout);
    for name in ["jwt_key", "ticket_secret", "admin_token", "cron_token", "webhook_secrets"] {
        assert!(!variables.get(name).is_empty());
        assert!(!listing.contains(variables.get(name)), "{name} is on a command line");
        assert!(!up.process.output().contains(variables.get(name)), "{name} was printed");
    }
    let (app, redis) = (up.pid("app"), up.pid("redis"));
    kill(Pid::from_raw(up.process.id().cast_signed()), Signal::SIGKILL).expect("killed");
    eventually("its processes to end", async || {
        let alive: Vec<_> = [app, redis].into_iter().filter(|pid| !has_exited(*pid)).collect();
        if alive.is_empty() && !ports::accepts_connections(port) { Ok(()) } else { Err(format!("{alive:?}")) }
    })
    .await;
    // The next start works as usual.
    Up::start(temp_dir.path(), port, &["--no-demo"]).stop();
}

#[test]
fn an_unreachable_store_is_named_at_start_up() {
    let temp_dir = TempDir::new().expect("a directory");
    let closed_port = ports::pick_unused().expect("a port");
    for (option, scheme) in [("--redis", "redis"), ("--ledger", "postgres")] {
        let url = format!("{scheme}://user:a-password@127.0.0.1:{closed_port}/0");
        let mut command = start_command("127.0.0.1:0", &temp_dir.path().join(scheme));
        let ended = command.args([option, &url]).output().expect("up");
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert!(!ended.status.success());
        assert!(stderr.contains(&format!("127.0.0.1:{closed_port}")) && stderr.contains(option), "{stderr}");
        assert!(!stderr.contains("a-password"), "{stderr}");
    }
}

#[test]
fn several_redis_servers_need_an_exported_allow_list() {
    let temp_dir = TempDir::new().expect("a directory");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let seeds = format!("redis://127.0.0.1:{port} redis://localhost:{port}");
    let mut command = start_command("127.0.0.1:0", temp_dir.path());
    let ended = command.env("SPIN_VARIABLE_REDIS_URL", seeds).output().expect("up");
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && stderr.contains("SPIN_VARIABLE_REDIS_HOST"), "{stderr}");
}

#[test]
fn a_refused_start_reports_why_and_a_public_address_is_warned_of() {
    let temp_dir = TempDir::new().expect("a directory");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let used_address = listener.local_addr().expect("an address").to_string();
    fs::write(temp_dir.path().join("env"), [0xff, 0xfe]).expect("written");
    for (address, expected) in [
        (used_address.as_str(), "is in use: end what listens there"),
        // An address reserved for documentation (RFC 5737), so never this machine's.
        ("192.0.2.1:3000", "cannot listen on 192.0.2.1:3000"),
        ("127.0.0.1:0", "env is damaged: repair it, or use --fresh"),
        ("0.0.0.0:0", "can be reached from other machines, and the sandbox signs anybody in"),
    ] {
        let ended = start_command(address, temp_dir.path()).output().expect("up");
        let output = format!("{}{}", String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
        assert!(!ended.status.success() && output.contains(expected), "{output}");
        assert_eq!(output.contains("warning"), address.starts_with("0.0.0.0"), "{output}");
    }
}
