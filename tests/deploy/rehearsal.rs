//! A rehearsal against an installation from the archive of a release, without sandbox: go, and no-go for each fault (G21).

use std::{
    fs,
    path::PathBuf,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use dev::{nginx::Nginx, proxy::Proxy, root, variables::Variables};
use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::{Value, json};
use support::{
    HttpClient, TestApp,
    payments::{use_events_endpoint, use_payment_service},
};
use tempfile::TempDir;

use crate::release::unpacked;

/// An installation whose provider and shop can be cut off, and whose sweeper can be stopped.
pub struct Installation {
    /// The app.
    pub app: TestApp,
    /// Its settings (`env`) and backups.
    pub directory: TempDir,
    /// The unpacked archive.
    pub release: PathBuf,
    provider: Proxy,
    shop: Proxy,
    sweeps: Arc<AtomicBool>,
}

/// Puts a proxy in front of the origin of a variable.
fn cut_off(variables: &mut Variables, url: &str, host: &str) -> Proxy {
    let origin = variables.get(host).to_owned();
    let proxy = Proxy::start(origin.rsplit(':').next().expect("a port").parse().expect("a number")).expect("a proxy");
    let through = format!("http://127.0.0.1:{}", proxy.port());
    variables.set(url, variables.get(url).replace(&origin, &through));
    variables.set(host, through);
    proxy
}

impl Installation {
    /// Starts it.
    pub fn start() -> Self {
        let directory = TempDir::new().expect("a directory");
        let release = unpacked(directory.path());
        let manifest = release.join("spin.production.toml");
        let mut proxies = vec![];
        let app = TestApp::with_settings(&[], |settings| {
            settings.manifest = manifest;
            let variables = &mut settings.variables;
            // They answer as long as their calls are received.
            std::mem::forget((use_payment_service(variables), use_events_endpoint(variables)));
            // Production has no such variable.
            variables.remove("sandbox");
            proxies.push(cut_off(variables, "events_url", "events_host"));
            proxies.push(cut_off(variables, "payments_url", "payments_host"));
        });
        let (provider, shop) = (proxies.pop().expect("a proxy"), proxies.pop().expect("a proxy"));
        fs::write(directory.path().join("env"), app.variables.to_lines()).expect("written");
        let installation = Self { app, directory, release, provider, shop, sweeps: Arc::new(AtomicBool::new(true)) };
        installation.make_backup("backups", 1);
        installation.make_backup("old", 50);
        let (sweeps, token) = (installation.sweeps.clone(), installation.app.variables.get("cron_token").to_owned());
        let http = HttpClient::of_proxy(&installation.url()).tolerating_shutdown();
        tokio::spawn(async move {
            loop {
                if sweeps.load(Ordering::Relaxed) {
                    let _ = http.try_send(Method::POST, "/api/tasks/sweep", &token, &Value::Null).await;
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        });
        installation
    }

    /// Where buyers come.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.app.port())
    }

    /// A directory with a backup of that age.
    fn make_backup(&self, name: &str, hours: i64) {
        let output = Command::new("date").args(["-u", "-d", &format!("{hours} hours ago"), "+%Y%m%dT%H%M%SZ"]).output();
        let time = String::from_utf8(output.expect("date").stdout).expect("UTF-8");
        fs::create_dir_all(self.directory.path().join(name).join(time.trim_end())).expect("a directory");
    }

    /// Rehearses with these options and variables. Returns whether it is a go, and what is printed.
    async fn rehearse(&self, options: &[&str], environment: &[(&str, &str)]) -> (bool, String) {
        let mut command = Command::new(self.release.join("bin/stampede-load"));
        command.args(["rehearse", "--stock", "5", "--env-file", "env", "--visitors", "1000", "--units", "100"]);
        if !options.contains(&"--backups") {
            command.args(["--backups", "backups"]);
        }
        command.args(options).current_dir(self.directory.path());
        command.env("STAMPEDE_URL", self.url()).envs(environment.iter().copied());
        let ended =
            tokio::task::spawn_blocking(move || command.output()).await.expect("a thread").expect("the program");
        let printed = String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned();
        (ended.status.success(), printed)
    }

    /// Rehearses, and expects that this check alone says no.
    async fn is_no_go(&self, check: &str, options: &[&str], environment: &[(&str, &str)]) {
        let (is_go, printed) = self.rehearse(options, environment).await;
        assert!(!is_go && printed.contains(&format!("\nNO-GO: {check}\n")), "not {check}: {printed}");
    }

    async fn shed(&self, on: bool) {
        self.app.call_admin(Method::PUT, "/shed", &json!({ "on": on })).await.is(200);
    }

    async fn evict(&self, policy: &str) {
        self.app.ask_redis::<String>(&["CONFIG", "SET", "maxmemory-policy", policy]).await;
    }
}

fn project() -> PathBuf {
    root::find().expect("the project")
}

/// Without the small sale.
const LIST: &str = "--no-sale";

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_without_sandbox_is_a_go_and_each_fault_a_no_go() {
    let installation = Installation::start();
    let (is_go, printed) = installation.rehearse(&[LIST], &[]).await;
    assert!(is_go && printed.contains("\nGO, but not checked: certificate"), "{printed}");
    for check in ["stores", "limits", "clocks", "callbacks in", "events out", "backup", "capacity"] {
        assert!(printed.lines().any(|line| line.starts_with(&format!("go     {check} "))), "{check}: {printed}");
    }

    installation.evict("allkeys-lru").await;
    installation.is_no_go("stores", &[LIST], &[]).await;
    installation.evict("noeviction").await;
    installation.shed(true).await;
    installation.is_no_go("limits", &[LIST], &[]).await;
    installation.shed(false).await;
    let other = ("SPIN_VARIABLE_WEBHOOK_SECRETS", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD");
    installation.is_no_go("callbacks in", &[LIST], &[other]).await;
    installation.shop.disable();
    installation.is_no_go("events out", &[LIST], &[]).await;
    installation.shop.enable();
    installation.app.call_admin(Method::POST, "/events/enable", &Value::Null).await;
    installation.is_no_go("capacity", &[LIST, "--within", "10ms", "--app-cores", "1"], &[]).await;
    for backups in ["old", "missing"] {
        installation.is_no_go("backup", &[LIST, "--backups", backups], &[]).await;
    }
    let directory = TempDir::new().expect("a directory");
    let nginx = Nginx::start_with_tls(directory.path(), &project(), &[installation.app.port()]).expect("nginx");
    let url = format!("https://localhost:{}", nginx.port());
    let (is_go, printed) = installation.rehearse(&[LIST], &[("STAMPEDE_URL", &url)]).await;
    assert!(!is_go && printed.contains("\nNO-GO  certificate "), "nobody trusts it: {printed}");
    let key = ("SPIN_VARIABLE_JWT_KEY", "a key of another app, which is long enough");
    installation.is_no_go("sale", &[], &[key]).await;
    installation.provider.disable();
    installation.is_no_go("sale", &[], &[]).await;
    installation.provider.enable();
    // Sweeps write the orders, seconds later.
    let writer = |signal| installation.app.with_app(|app| app.signal_trigger("redis", signal)).expect("a signal");
    writer(Signal::SIGSTOP);
    installation.is_no_go("writer", &[], &[]).await;
    writer(Signal::SIGCONT);
    installation.sweeps.store(false, Ordering::Relaxed);
    installation.is_no_go("events out", &[LIST], &[]).await;
}
