//! Each part fails in turn: the alert of `deploy/monitoring` fires on the metrics of then, and the first command of its
//! section in `docs/runbook.md` shows the cause (G20).

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

use dev::{root, variables::Variables};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use support::{Buyer, TestApp, eventually};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinHandle,
};

/// Seconds between two scrapes, as Prometheus sees them.
const INTERVAL: usize = 15;

/// Figures by name and labels; `None` if the app does not answer.
type Scrape = Option<BTreeMap<String, f64>>;

/// What Prometheus has: two scrapes before a part fails, and two while it does. It goes on as from the one to the other.
struct Watch<'a> {
    app: &'a TestApp,
    started: f64,
    scrapes: Vec<Scrape>,
}

impl<'a> Watch<'a> {
    /// Scrapes twice; `work` is what the app does in between, here and later.
    async fn start(app: &'a TestApp, work: impl AsyncFn()) -> Self {
        let started = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64();
        let mut watch = Self { app, started, scrapes: vec![] };
        watch.scrape_twice(work).await;
        watch
    }

    async fn scrape_twice(&mut self, work: impl AsyncFn()) {
        for _ in 0..2 {
            work().await;
            // Instances hand over their counts within a second, and the ledger's figures are read anew after 3 s.
            tokio::time::sleep(std::time::Duration::from_millis(3_500)).await;
            let token = self.app.variables.get("metrics_token");
            let headers = [("authorization", format!("Bearer {token}"))];
            let answer = self.app.http.send_with_headers(reqwest::Method::GET, "/metrics", &headers, "").await.ok();
            self.scrapes.push(answer.map(|answer| {
                let body = answer.is(200).body;
                let samples = body.lines().filter(|line| !line.starts_with('#')).map(|line| {
                    let (name, value) = line.rsplit_once(' ').expect("a value");
                    let value: f64 = value.parse().expect("a number");
                    let is_time = name.contains("_timestamp_");
                    (name.to_owned(), if is_time { value - self.started } else { value })
                });
                samples.collect()
            }));
        }
    }

    /// Scrapes twice, and asserts that `alert` was silent before, and fires after `minutes` of this.
    async fn fires(mut self, alert: &str, minutes: usize, work: impl AsyncFn()) {
        self.scrape_twice(work).await;
        let firing = format!(r#"max(ALERTS{{alertname="{alert}",alertstate="firing"}})"#);
        let silent = json!({ "expr": firing, "eval_time": format!("{INTERVAL}s"), "exp_samples": [] });
        self.evaluate(minutes, &json!([silent, is_one(&firing, minutes)]));
    }

    /// Evaluates expressions with the rules, on the figures of the scrapes and of `minutes` after them.
    fn evaluate(&self, minutes: usize, tests: &Value) {
        let steps = minutes * 60 / INTERVAL;
        let mut series = String::new();
        let names: BTreeSet<_> = self.scrapes.iter().flatten().flat_map(BTreeMap::keys).collect();
        let ups = self.scrapes.iter().map(|scrape| Some(f64::from(u8::from(scrape.is_some()))));
        add_series(&mut series, r#"up{job="stampede",instance="a"}"#, &ups.collect::<Vec<_>>(), steps);
        add_series(&mut series, r#"up{job="stampede",instance="b"}"#, &[Some(1.0); 4], steps);
        for name in names {
            let values = self.scrapes.iter().map(|scrape| scrape.as_ref()?.get(name).copied());
            let labelled = match name.split_once('{') {
                Some((metric, labels)) => format!(r#"{metric}{{job="stampede",instance="a",{labels}"#),
                None => format!(r#"{name}{{job="stampede",instance="a"}}"#),
            };
            add_series(&mut series, &labelled, &values.collect::<Vec<_>>(), steps);
        }
        let file = format!(
            "rule_files: ['{}']\nevaluation_interval: {INTERVAL}s\ntests:\n- interval: {INTERVAL}s\n  input_series:\n\
             {series}  promql_expr_test: {tests}\n",
            project().join("deploy/monitoring/alert-rules.yml").display()
        );
        let directory = TempDir::new().expect("a directory");
        let path = directory.path().join("test.yml");
        fs::write(&path, &file).expect("written");
        let output = Command::new("promtool").args(["test", "rules"]).arg(&path).output().expect("promtool");
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}\n{series}");
    }
}

/// Expects that an expression is 1 after so many minutes.
fn is_one(expression: &str, minutes: usize) -> Value {
    let sample = json!({ "labels": "{}", "value": 1 });
    json!({ "expr": expression, "eval_time": format!("{minutes}m"), "exp_samples": [sample] })
}

fn project() -> PathBuf {
    root::find().expect("the project")
}

/// Adds a series that goes on as its last two values.
fn add_series(series: &mut String, name: &str, values: &[Option<f64>], steps: usize) {
    let mut text: Vec<_> = values
        .iter()
        .zip([None].into_iter().chain(values.iter().copied()))
        .map(|(value, before)| match value {
            Some(value) => value.to_string(),
            None if before.is_some() => "stale".to_owned(),
            None => "_".to_owned(),
        })
        .collect();
    if let [.., Some(before), Some(last)] = values {
        let step = last - before;
        let sign = if step < 0.0 { '-' } else { '+' };
        *text.last_mut().expect("a value") = format!("{last}{sign}{}x{steps}", step.abs());
    }
    writeln!(series, "  - {{ series: '{name}', values: '{}' }}", text.join(" ")).expect("text");
}

/// Runs a command with the variables of the runbook. Returns what it writes, without spaces at its ends, and its errors.
fn run_command(app: &TestApp, command: &str, variables: &[(&str, &str)]) -> (String, String) {
    let directory = TempDir::new().expect("a directory");
    let header = |name: &str| {
        let path = directory.path().join(name);
        fs::write(&path, format!("Authorization: Bearer {}\n", app.variables.get(name))).expect("written");
        format!("@{}", path.display())
    };
    let own = [
        ("URL", app.with_app(|app| app.url().to_owned())),
        ("A", header("admin_token")),
        ("C", header("cron_token")),
        ("REDIS", app.variables.get("redis_url").to_owned()),
        ("LEDGER", app.variables.get("ledger").to_owned()),
    ];
    let mut bash = Command::new("bash");
    let output = bash.args(["-c", command]).envs(own).envs(variables.iter().copied()).output().expect("bash");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Runs the first command of an alert's section in the runbook, and asserts that it shows what stands there.
fn assert_first_command_shows_it(app: &TestApp, alert: &str, variables: &[(&str, &str)]) {
    let runbook = fs::read_to_string(project().join("docs/runbook.md")).expect("the runbook");
    let section = runbook.split(&format!("\n## {alert}\n")).nth(1).expect("a section");
    let block = section.split("```console\n$ ").nth(1).and_then(|rest| rest.split("\n```").next()).expect("a command");
    let (command, expected) = block.split_once('\n').unwrap_or((block, ""));
    let found = run_command(app, command, variables).0;
    let mut rest = &*found;
    for part in expected.split('…') {
        let at = rest.find(part).unwrap_or_else(|| panic!("{alert}: {command}\nexpected: {expected}\nfound: {found}"));
        rest = &rest[at + part.len()..];
    }
}

/// Serves the same answer to every request, until it is aborted.
async fn serve(answer: &'static str) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", answer.len());
    let server = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            // A small request arrives at once.
            let _ = stream.read(&mut [0; 16 * 1024]).await;
            let _ = stream.write_all(&[head.as_bytes(), answer.as_bytes()].concat()).await;
        }
    });
    (url, server)
}

fn use_events(variables: &mut Variables, url: &str) {
    variables.set("events_secret", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD");
    variables.set("events_url", format!("{url}/events"));
    variables.set("events_host", url);
}

async fn nothing() {}

#[tokio::test(flavor = "multi_thread")]
async fn each_query_of_the_dashboard_has_figures() {
    let (url, _endpoint) = serve("{}").await;
    let app = TestApp::with_variables(|variables| use_events(variables, &url));
    let activity = app.create_activity(json!({})).await;
    let work = async || {
        let buyer = app.create_buyer(&activity, &fastrand::u64(..).to_string()).await;
        app.reserve(&activity, &Buyer { ticket: format!("{}x", buyer.ticket), ..buyer.clone() }, "a", 1).await;
        app.request_ticket(&activity.id, &format!("{}x", buyer.jwt)).await;
        // It reports the one before.
        app.request_ticket(&activity.id, &buyer.jwt).await;
        let order_no = app.place_order(&activity, &buyer).await;
        app.pay(&order_no, &buyer.jwt).await;
        app.sweep().await;
        for _ in 0..100 {
            app.get_order(&order_no, &buyer.ticket).await;
        }
    };
    let mut watch = Watch::start(&app, work).await;
    watch.scrape_twice(work).await;
    let dashboard = fs::read_to_string(project().join("deploy/monitoring/dashboard.json")).expect("a dashboard");
    let dashboard: Value = serde_json::from_str(&dashboard).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let queries = targets.map(|target| target["expr"].as_str().expect("a query").replace("$activity", ".*"));
    let tests: Vec<_> = queries.map(|query| is_one(&format!("count({query}) > bool 0"), 3)).collect();
    assert!(tests.len() > 30, "{} queries", tests.len());
    watch.evaluate(3, &json!(tests));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_the_runbook_is_understood() {
    let (_postgres, app) = TestApp::on_postgres();
    let (activity, ..) = app.create_order(json!({})).await;
    let runbook = fs::read_to_string(project().join("docs/runbook.md")).expect("the runbook");
    let commands = runbook.lines().filter_map(|line| line.strip_prefix("$ "));
    // Units and paths of a machine: `tests/deploy` compares the names.
    let is_here = |command: &&str| !["systemctl", "df ", "curl -s http://127"].iter().any(|it| command.starts_with(it));
    let mut number = 0;
    for command in commands.filter(is_here) {
        let command = command.replace("/demo/", &format!("/{}/", activity.id)).replace("curl -s", "curl -sS --fail");
        let url = app.with_app(|app| app.url().to_owned());
        let (_, errors) = run_command(&app, &command, &[("PROVIDER", &url), ("EVENTS", &url)]);
        assert_eq!(errors, "", "{command}");
        number += 1;
    }
    assert!(number > 25, "{number} commands");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_order_writer_is_down() {
    let app = TestApp::dedicated();
    let activity = app.create_activity(json!({})).await;
    let work = async || {
        let buyer = app.create_buyer(&activity, &fastrand::u64(..).to_string()).await;
        let order_no = app.reserve(&activity, &buyer, "a", 1).await.is(202).text("order_no");
        // Without the writer, the sweeper writes.
        eventually("the order to be written", async || {
            app.sweep().await;
            let order = app.get_order(&order_no, &buyer.ticket).await;
            if order.body.contains("pending_payment") { Ok(()) } else { Err(order.body) }
        })
        .await;
    };
    // Only the writer writes here.
    app.create_order(json!({})).await;
    let watch = Watch::start(&app, nothing).await;
    app.with_app(|app| app.signal_trigger("redis", Signal::SIGSTOP)).expect("the writer");
    watch.fires("StampedeWriterDown", 12, work).await;
    assert_first_command_shows_it(&app, "StampedeWriterDown", &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_calls_the_sweeper() {
    let app = TestApp::dedicated();
    let watch = Watch::start(&app, async || drop(app.sweep().await)).await;
    watch.fires("StampedeSweeperStopped", 5, nothing).await;
    assert_first_command_shows_it(&app, "StampedeSweeperStopped", &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_is_away() {
    let app = TestApp::dedicated();
    let watch = Watch::start(&app, nothing).await;
    app.with_redis(|redis| redis.process().signal(Signal::SIGSTOP));
    watch.fires("StampedeRedisDown", 2, nothing).await;
    assert_first_command_shows_it(&app, "StampedeRedisDown", &[]);
    app.with_redis(|redis| redis.process().signal(Signal::SIGCONT));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ledger_is_away() {
    let (postgres, app) = TestApp::on_postgres();
    let watch = Watch::start(&app, nothing).await;
    postgres.pause();
    eventually("the copy of its figures to be old", async || {
        let metrics = app.http.get("/metrics", app.variables.get("metrics_token")).await.is(200).body;
        if metrics.contains("{store=\"ledger\"} 0") { Ok(()) } else { Err("it is used") }
    })
    .await;
    watch.fires("StampedeLedgerDown", 3, nothing).await;
    assert_first_command_shows_it(&app, "StampedeLedgerDown", &[]);
    postgres.resume();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_payment_provider_is_away() {
    let (url, provider) = serve(r#"{"session":"s","url":"https://pay.example/s"}"#).await;
    let app = TestApp::with_variables(|variables| {
        variables.set("sandbox", "off");
        variables.set("payment_provider", "webhook");
        variables.set("payments_url", &url);
        variables.set("payments_host", &url);
    });
    let (_, buyer, order_no) = app.create_order(json!({})).await;
    let pay = async || {
        for _ in 0..5 {
            app.checkout(&order_no, &buyer.jwt).await;
        }
    };
    let watch = Watch::start(&app, nothing).await;
    provider.abort();
    watch.fires("StampedeProviderDown", 5, pay).await;
    assert_first_command_shows_it(&app, "StampedeProviderDown", &[("PROVIDER", &url)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_endpoint_of_events_is_away() {
    let (url, endpoint) = serve("{}").await;
    let app = TestApp::with_variables(|variables| use_events(variables, &url));
    app.sweep().await;
    let watch = Watch::start(&app, async || drop(app.sweep().await)).await;
    endpoint.abort();
    app.create_order(json!({})).await;
    // An age grows by 15 s in 15 s, and here by the few seconds between two scrapes.
    watch.fires("StampedeEventsLate", 120, async || drop(app.sweep().await)).await;
    assert_first_command_shows_it(&app, "StampedeEventsLate", &[("EVENTS", &url)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_app_is_away() {
    let app = TestApp::dedicated();
    let watch = Watch::start(&app, nothing).await;
    app.with_app(|app| app.process().signal(Signal::SIGKILL));
    watch.fires("StampedeAppDown", 4, nothing).await;
    assert_first_command_shows_it(&app, "StampedeAppDown", &[]);
}

/// A file system in memory, which is unmounted in the end.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn mount() -> Self {
        let directory = TempDir::new().expect("a directory");
        run("mount", &["-t", "tmpfs", "-o", "size=4m", "none"], directory.path());
        Self(directory)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        run("umount", &["-l"], self.0.path());
    }
}

fn run(program: &str, args: &[&str], path: &Path) {
    let status = Command::new(program).args(args).arg(path).status().expect(program);
    assert!(status.success(), "{program} {args:?}: {status}");
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn the_disk_of_redis_is_full() {
    if fs::metadata("/proc/self").map_or(1, |process| process.uid()) != 0 {
        eprintln!("not run: only root mounts a small file system");
        return;
    }
    let disk = SmallDisk::mount();
    let app = TestApp::with_settings(&["--dir", disk.0.path().to_str().expect("UTF-8")], |_| {});
    let watch = Watch::start(&app, nothing).await;
    let mut redis = app.connect_redis().await;
    eventually("the disk to be full", async || {
        let large = redis::cmd("SET").arg("large").arg(vec![b'x'; 1 << 20]).query_async::<()>(&mut redis).await;
        if large.is_err() { Ok(()) } else { Err("it has room") }
    })
    .await;
    watch.fires("StampedeRedisDown", 2, nothing).await;
    assert_first_command_shows_it(&app, "StampedeRedisDown", &[]);
}
