//! `scripts/up` from outside: what dies comes back, what ends leaves nothing behind, what was sold stays sold (G1).

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use dev::{
    engine::{Engine, target_directory},
    poll::{self, Look},
    ports,
    process::Process,
    root,
    scratch::Scratch,
    variables::Variables,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use reqwest::Method;
use serde_json::{Value, json};

use support::{Claims, Http, activity::description, eventually};

/// A running `up` with its data in a directory of its own.
struct Up {
    process: Process,
    url: String,
    directory: PathBuf,
}

impl Up {
    fn start(directory: &Path, port: u16, more: &[&str]) -> Self {
        let root = root::find().expect("the project");
        let mut command = Command::new(target_directory(&root).join("release/up"));
        command.current_dir(&root).args(["--no-build", "--listen", &format!("127.0.0.1:{port}"), "--directory"]);
        command.arg(directory).args(more);
        command.arg("--engine").arg(Engine::discover(None).expect("an engine").to_string());
        let mut process = Process::spawn("up", &mut command, None).expect("up");
        let url = process.wait_for_line("where to look", Duration::from_secs(300), |line| {
            line.trim().strip_prefix("Stampede serves ").map(str::to_owned)
        });
        Self { url: url.expect("started"), process, directory: directory.to_owned() }
    }

    fn variables(&self) -> Variables {
        let mut variables = Variables::default();
        variables.read_lines(&fs::read_to_string(self.directory.join("env")).expect("env")).expect("variables");
        variables
    }

    fn pid(&self, name: &str) -> Pid {
        let text = fs::read_to_string(self.directory.join("pids").join(name)).unwrap_or_default();
        Pid::from_raw(text.trim().parse().unwrap_or_else(|_| panic!("{name} has the id {text:?}")))
    }

    async fn ready(&self) {
        let http = Http::new(&self.url);
        eventually("the app to be ready", async || {
            match http.try_send(Method::GET, "/readyz", "", &Value::Null).await {
                Ok(answer) if answer.status == 200 => Ok(()),
                Ok(answer) => Err(answer.body),
                Err(error) => Err(error.to_string()),
            }
        })
        .await;
    }

    /// Ends it as Ctrl-C does, and waits.
    fn end(mut self) {
        kill(Pid::from_raw(self.process.id().cast_signed()), Signal::SIGINT).expect("a signal");
        let ended = poll::until("up to end", Duration::from_secs(30), || {
            Ok(self.process.exited().map_or(Look::Waiting("it runs"), Look::Done))
        });
        assert!(ended.expect("an end").success(), "{}", self.process.output());
    }
}

async fn order(http: &Http, variables: &Variables, user: &str) -> (String, String) {
    let jwt = Claims::of(user, variables).sign(variables);
    let ticket = http.post("/api/activities/up/ticket", &jwt, &json!({})).await.is(201).text("ticket");
    let start_key = http.get("/api/activities/up/gate.json", "").await.is(200).text("start_key");
    let wish = json!({"sku": "a", "quantity": 1, "ticket": ticket, "start_key": start_key});
    (http.post("/api/activities/up/orders", "", &wish).await.is(202).text("order_no"), jwt)
}

async fn pending(http: &Http, order_no: &str, jwt: &str) {
    eventually("the order to be in the ledger", async || {
        match http.try_send(Method::GET, &format!("/api/orders/{order_no}"), jwt, &Value::Null).await {
            Ok(answer) if answer.status == 200 && answer.text("status") == "pending_payment" => Ok(()),
            Ok(answer) => Err(answer.body),
            Err(error) => Err(error.to_string()),
        }
    })
    .await;
}

async fn publish(http: &Http, variables: &Variables) {
    let token = variables.get("admin_token");
    http.send(Method::PUT, "/api/admin/activities/up", token, &description(&json!({}))).await.is(200);
    http.post("/api/admin/activities/up/publish", token, &Value::Null).await.is(200);
    let jwt = Claims::of("somebody", variables).sign(variables);
    eventually("the sale to be known everywhere", async || {
        let gate = http.get("/api/activities/up/gate.json", "").await;
        let ticket = http.post("/api/activities/up/ticket", &jwt, &json!({})).await;
        if gate.status == 200 && ticket.status == 201 { Ok(()) } else { Err(gate.body + &ticket.body) }
    })
    .await;
}

fn is_gone(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    kill(pid, None).is_err() || stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z'))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_killed_comes_back_and_what_was_sold_stays_sold() {
    let scratch = Scratch::new().expect("a directory");
    let port = ports::free().expect("a port");
    let up = Up::start(scratch.path(), port, &["--no-demo"]);
    let (http, variables) = (Http::new(&up.url), up.variables());
    publish(&http, &variables).await;
    let (first, jwt) = order(&http, &variables, "ada").await;
    pending(&http, &first, &jwt).await;

    for name in ["app", "redis", "app"] {
        // A Redis that dies takes the app along, by its Redis trigger.
        let ends: &[&str] = if name == "redis" { &["redis", "app"] } else { &["app"] };
        let before: Vec<_> = ends.iter().map(|name| up.pid(name)).collect();
        kill(before[0], Signal::SIGKILL).expect("killed");
        eventually(&format!("another of {ends:?}"), async || {
            let now: Vec<_> = ends.iter().map(|name| up.pid(name)).collect();
            let other = now.iter().zip(&before).all(|(now, before)| now != before);
            if other { Ok(()) } else { Err(format!("{now:?}")) }
        })
        .await;
        up.ready().await;
        pending(&http, &first, &jwt).await;
        let (next, jwt) = order(&http, &variables, &format!("after-{name}-{}", before[0])).await;
        pending(&http, &next, &jwt).await;
    }
    assert!(up.process.output().contains("starting it again"), "{}", up.process.output());
    up.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_leaves_no_process_and_the_next_start_finds_the_data_within_five_seconds() {
    let scratch = Scratch::new().expect("a directory");
    let port = ports::free().expect("a port");
    let up = Up::start(scratch.path(), port, &[]);
    let (http, before) = (Http::new(&up.url), up.variables());
    let demo = eventually("the demo sale to be seeded", async || {
        let answer = http.get("/api/activities/demo", "").await;
        if answer.status == 200 { Ok(answer.json()) } else { Err(answer.body) }
    })
    .await;
    assert_eq!(demo["phase"], "scheduled", "{demo}");
    publish(&http, &before).await;
    let (order_no, jwt) = order(&http, &before, "ada").await;
    pending(&http, &order_no, &jwt).await;
    let (app, redis) = (up.pid("app"), up.pid("redis"));
    up.end();
    assert!(is_gone(app) && is_gone(redis));
    assert!(!ports::answers(port), "somebody still listens on {port}");

    // A start that is slow is slow each time; a machine that is busy is not.
    let mut took = vec![];
    let up = loop {
        let start = Instant::now();
        let up = Up::start(scratch.path(), port, &[]);
        took.push(start.elapsed());
        if took.len() == 3 || took.last().is_some_and(|took| *took < Duration::from_secs(5)) {
            break up;
        }
        up.end();
    };
    assert!(took.iter().any(|took| *took < Duration::from_secs(5)), "the next starts took {took:?}");
    assert_eq!(up.variables(), before);
    pending(&http, &order_no, &jwt).await;
    let again = http.get("/api/activities/demo", "").await.is(200).json();
    assert_eq!(again["starts_at"], demo["starts_at"]);

    // A second one in the same place would write into the same files.
    let root = root::find().expect("the project");
    let mut second = Command::new(target_directory(&root).join("release/up"));
    let refused =
        second.current_dir(&root).args(["--no-build", "--listen", "127.0.0.1:0", "--directory"]).arg(scratch.path());
    let refused = refused.output().expect("up");
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("another scripts/up is running"), "{refused:?}");
    up.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_survives_an_up_that_is_killed_itself() {
    let scratch = Scratch::new().expect("a directory");
    let port = ports::free().expect("a port");
    let up = Up::start(scratch.path(), port, &["--no-demo"]);
    let (app, redis) = (up.pid("app"), up.pid("redis"));
    kill(Pid::from_raw(up.process.id().cast_signed()), Signal::SIGKILL).expect("killed");
    eventually("its processes to end", async || {
        let alive = [("app", app), ("redis", redis)].into_iter().filter(|(_, pid)| !is_gone(*pid)).collect::<Vec<_>>();
        if alive.is_empty() && !ports::answers(port) { Ok(()) } else { Err(format!("{alive:?}")) }
    })
    .await;
    // And the next one starts as if nothing had been.
    Up::start(scratch.path(), port, &["--no-demo"]).end();
}

#[test]
fn a_store_that_is_not_there_is_named_at_once() {
    let scratch = Scratch::new().expect("a directory");
    let (root, gone) = (root::find().expect("the project"), ports::free().expect("a port"));
    for (option, scheme) in [("--redis", "redis"), ("--ledger", "postgres")] {
        let url = format!("{scheme}://user:a-password@127.0.0.1:{gone}/0");
        let mut command = Command::new(target_directory(&root).join("release/up"));
        command.current_dir(&root).args(["--no-build", "--listen", "127.0.0.1:0", "--directory"]);
        let ended = command.arg(scratch.path().join(scheme)).args([option, &url]).output().expect("up");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(!ended.status.success());
        assert!(said.contains(&format!("127.0.0.1:{gone}")) && said.contains(option), "{said}");
        assert!(!said.contains("a-password"), "{said}");
    }
}

#[test]
fn a_start_that_is_refused_says_why() {
    let scratch = Scratch::new().expect("a directory");
    let (root, listener) = (root::find().expect("the project"), TcpListener::bind("127.0.0.1:0").expect("a port"));
    let taken = listener.local_addr().expect("an address").to_string();
    fs::write(scratch.path().join("env"), [0xff, 0xfe]).expect("written");
    for (address, words) in [
        (taken.as_str(), "is in use: end what listens there"),
        // An address of documents: nobody's, so not this machine's.
        ("192.0.2.1:3000", "cannot listen on 192.0.2.1:3000"),
        ("127.0.0.1:0", "env is damaged: repair it, or use --fresh"),
    ] {
        let mut command = Command::new(target_directory(&root).join("release/up"));
        command.current_dir(&root).args(["--no-build", "--listen", address, "--directory"]).arg(scratch.path());
        let ended = command.output().expect("up");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(!ended.status.success() && said.contains(words), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_readable_by_their_owner_alone_and_on_no_command_line() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new().expect("a directory");
    let up = Up::start(scratch.path(), ports::free().expect("a port"), &["--no-demo"]);
    let mode = fs::metadata(scratch.path().join("env")).expect("env").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let variables = up.variables();
    let listing = Command::new("ps").args(["-A", "-o", "args="]).output().expect("ps");
    let listing = String::from_utf8_lossy(&listing.stdout);
    for name in ["jwt_key", "ticket_secret", "admin_token", "cron_token", "webhook_secrets"] {
        assert!(!variables.get(name).is_empty());
        assert!(!listing.contains(variables.get(name)), "{name} is on a command line");
        assert!(!up.process.output().contains(variables.get(name)), "{name} was printed");
    }
    up.end();
}
