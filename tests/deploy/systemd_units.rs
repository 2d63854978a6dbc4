//! Checks the units of the self-hosted kit (G9).

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use dev::{
    app::parse_serving_line,
    documents,
    manifest::Manifest,
    poll::{self, Probe},
    process::Process,
    root,
    variables::Variables,
};
use support::{HttpClient, Shop, payments::send_stripe_payment};
use tempfile::TempDir;

use crate::{
    install::{install_app_of, installed},
    release::install_spin,
};

const TIMEOUT: Duration = Duration::from_secs(60);

fn project() -> PathBuf {
    root::find().expect("the project")
}

fn read_kit_file(file: &str) -> String {
    let path = project().join("deploy/self-hosted").join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns all values of a key of a unit, in order. A `\` at the end of a line continues it.
fn unit_values(unit: &str, key: &str) -> Vec<String> {
    let text = read_kit_file(&format!("systemd/{unit}")).replace("\\\n", " ");
    let lines = text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=').map(str::to_owned));
    lines.collect()
}

/// Splits the command that a unit starts into arguments.
fn exec_start(unit: &str) -> Vec<String> {
    let [line] = &unit_values(unit, "ExecStart")[..] else { panic!("{unit} starts more or less than one command") };
    line.split_whitespace().map(str::to_owned).collect()
}

/// The components that a unit selects with `-c`.
fn selected_components(unit: &str) -> Vec<String> {
    exec_start(unit).windows(2).filter(|pair| pair[0] == "-c").map(|pair| pair[1].clone()).collect()
}

/// Generates the manifest without the sandbox, and returns its path.
pub fn production_manifest(root: &Path) -> PathBuf {
    let status = Command::new(root.join("deploy/production-manifest")).status().expect("the script");
    assert!(status.success(), "{status}");
    root.join("spin.production.toml")
}

#[test]
fn the_production_manifest_differs_only_by_the_sandbox() {
    let read = |path: PathBuf| fs::read_to_string(path).expect("a manifest").parse::<toml::Table>().expect("TOML");
    let (production, mut full) = (read(production_manifest(&project())), read(project().join("spin.toml")));
    let components = full["component"].as_table_mut().expect("components");
    assert!(components.remove("sandbox").is_some());
    for (_, component) in components.iter_mut() {
        if let Some(variables) = component.get_mut("variables").and_then(toml::Value::as_table_mut) {
            variables.remove("sandbox");
        }
        if let Some(hosts) = component.get_mut("allowed_outbound_hosts").and_then(toml::Value::as_array_mut) {
            hosts.retain(|host| host.as_str() != Some("http://sandbox.spin.internal"));
        }
    }
    full["variables"].as_table_mut().expect("variables").remove("sandbox");
    let triggers = full["trigger"]["http"].as_array_mut().expect("triggers");
    triggers.retain(|trigger| trigger["component"].as_str() != Some("sandbox"));
    assert_eq!(production, full);
}

#[test]
fn the_units_start_every_component_of_the_manifest_once() {
    let manifest = Manifest::read_file(&production_manifest(&project())).expect("a manifest");
    assert_eq!(selected_components("stampede.service"), manifest.components_for("http"));
    assert_eq!(selected_components("stampede-writer.service"), manifest.components_for("redis"));
}

#[test]
fn the_units_have_the_required_settings_and_allow_twice_the_connections_of_nginx() {
    for unit in ["stampede.service", "stampede-writer.service", "nginx.conf"] {
        for (key, value) in [("Restart", "always"), ("StartLimitIntervalSec", "0")] {
            assert_eq!(unit_values(unit, key), [value], "{key} of {unit}");
        }
        // The functions are compiled when the app starts.
        assert!(unit_values(unit, "MemoryDenyWriteExecute").is_empty(), "{unit}");
    }
    // A worker alone would leave its counts behind, in memory that the next one shares.
    assert_eq!(unit_values("nginx.conf", "OOMPolicy"), ["kill"]);
    assert_eq!(unit_values("stampede-sweeper.timer", "OnUnitInactiveSec"), ["5s"]);
    let environment = unit_values("stampede.service", "Environment").join(" ");
    let instances = environment.split("SPIN_MAX_INSTANCE_COUNT=").nth(1).expect("a number of instances");
    let lanes = read_kit_file("nginx/stampede-lanes.conf");
    let max_conns: Vec<u32> = lanes
        .lines()
        .filter_map(|line| {
            let limit = line.trim().strip_prefix("server 127.0.0.1:3000 max_conns=")?;
            limit.strip_suffix(" max_fails=1 fail_timeout=2s;")?.parse().ok()
        })
        .collect();
    assert_eq!(max_conns.len(), 6, "{max_conns:?}");
    assert!(2 * max_conns.iter().sum::<u32>() < instances.parse().expect("a number"), "{max_conns:?} of {instances}");
}

#[cfg(target_os = "linux")]
#[test]
fn systemd_analyze_accepts_every_line_of_the_units() {
    let temp_dir = TempDir::new().expect("a directory");
    let (_redis, target) = installed(&temp_dir);
    // The program that a unit starts must exist, and this machine may have no `spin`.
    install_spin(&target.join("usr/local/bin"));
    let mut units = vec![];
    let entries = fs::read_dir(target.join("etc/systemd/system")).expect("units");
    let paths = entries.map(|entry| entry.expect("a unit").path());
    for path in paths.filter(|path| path.is_file()) {
        let text = fs::read_to_string(&path).expect("a unit");
        let command = format!("\nExecStart={}/", target.display());
        fs::write(&path, text.replace("\nExecStart=/", &command)).expect("a unit");
        units.push(path);
    }
    assert_eq!(units.len(), 4, "{units:?}");
    // What is added to the unit of Debian's nginx.
    let nginx = target.join("etc/systemd/system/nginx.service");
    fs::write(&nginx, "[Service]\nExecStart=/bin/true\n").expect("a unit");
    units.push(nginx);
    let verified = Command::new("systemd-analyze").arg("verify").args(&units).output().expect("systemd-analyze");
    let stderr = String::from_utf8_lossy(&verified.stderr);
    // systemd before 254 does not know the two back-off settings. Lines without `stampede` are about other units.
    let is_relevant = |line: &&str| {
        (line.contains("stampede") || line.contains("nginx"))
            && !line.contains("'RestartSteps'")
            && !line.contains("'RestartMaxDelaySec'")
    };
    let warnings: Vec<&str> = stderr.lines().filter(is_relevant).collect();
    assert!(verified.status.success() && warnings.is_empty(), "{stderr}");
}

/// The command of a unit: with its environment, in its directory, and as its user if the tests run as root, with `target` in
/// place of `/` and `address` in place of 127.0.0.1:3000. The lines of the sandbox need systemd itself, which no test has.
fn unit_command(unit: &str, target: &Path, address: &str) -> Command {
    let in_target =
        |path: &str| match ["/opt/", "/var/", "/etc/", "/usr/local/"].iter().any(|top| path.starts_with(top)) {
            true => format!("{}{path}", target.display()),
            false => path.replace("127.0.0.1:3000", address),
        };
    let mut command = Command::new("setpriv");
    if fs::metadata("/proc/self").expect("a process").uid() == 0 {
        let id = user_id(unit, target);
        command.args([format!("--reuid={id}"), format!("--regid={id}"), "--clear-groups".to_owned()]);
    }
    let mut environment = BTreeMap::from([("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())]);
    for pair in unit_values(unit, "Environment").iter().flat_map(|line| line.split(' ')) {
        let (name, value) = pair.split_once('=').expect("NAME=VALUE");
        environment.insert(name.to_owned(), in_target(value));
    }
    for file in unit_values(unit, "EnvironmentFile") {
        let lines = fs::read_to_string(in_target(&file)).expect("settings");
        let pairs = lines.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('='));
        environment.extend(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
    command.args(exec_start(unit).iter().map(|argument| {
        let variable = argument.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
        variable.map_or_else(|| in_target(argument), |name| environment[name].clone())
    }));
    command.env_clear().envs(&environment);
    command.current_dir(unit_values(unit, "WorkingDirectory").first().map_or("/".to_owned(), |path| in_target(path)));
    command
}

/// The id of a unit's user, which `sysusers.conf` made below `target`. A unit without one has an id that no user has.
fn user_id(unit: &str, target: &Path) -> u32 {
    let users = fs::read_to_string(target.join("etc/passwd")).expect("users");
    let Some(name) = unit_values(unit, "User").pop() else { return 61_184 };
    let mut fields = users.lines().map(|line| line.split(':')).find(|fields| fields.clone().next() == Some(&name));
    fields.as_mut().and_then(|fields| fields.nth(2)?.parse().ok()).expect("an id")
}

fn read_variables(path: &Path) -> Variables {
    let mut variables = Variables::default();
    variables.read_lines(&fs::read_to_string(path).expect("settings")).expect("variables");
    variables
}

/// Does what systemd does before it starts the units: makes the user and its directories. The cache has what this machine
/// has compiled, so that no test waits for that.
const BEFORE_START: &str = r#"
    set -e
    mkdir -p "$0/var/lib/stampede" "$0/var/cache/stampede"
    cp -R "${XDG_CACHE_HOME:-$HOME/.cache}/wasmtime" "$0/var/cache/stampede" || true
    chmod 755 "$0/.."
    [ "$(id -u)" != 0 ] || {
        systemd-sysusers --root="$0"
        chown -R "$(sed -n 's/^stampede:x:\([0-9]*\):\([0-9]*\):.*/\1:\2/p' "$0/etc/passwd")" "$0"/var/*/stampede
    }"#;

fn prepare(target: &Path) {
    install_spin(&target.join("usr/local/bin"));
    let prepared = Command::new("sh").args(["-c", BEFORE_START]).arg(target).output().expect("sh");
    assert!(prepared.status.success(), "{prepared:?}");
}

fn start_unit(unit: &str, target: &Path) -> Process {
    Process::spawn(unit, &mut unit_command(unit, target, "127.0.0.1:0"), None).expect("a process")
}

/// Starts the app of an installation. Returns its URL, too.
fn start_app(target: &Path) -> (Process, String) {
    let mut app = start_unit("stampede.service", target);
    let url = app.wait_for_line("where it serves", TIMEOUT, parse_serving_line);
    (app, url.unwrap_or_else(|error| panic!("{error:#}")))
}

/// Runs the line of `deploy/README.md` that calls the sweeper again and again.
fn start_sweeping(url: &str, token: &str) -> Process {
    let readme = fs::read_to_string(project().join("deploy/README.md")).expect("the README");
    let line = documents::commands(&readme).into_iter().find(|line| line.starts_with("while ")).expect("a line");
    let line = line.replace("=…", &format!("={token}")).replace("https://sale.example", url);
    Process::spawn("sweeping", Command::new("bash").current_dir(project()).args(["-c", &line]), None).expect("bash")
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn the_installed_kit_runs_as_two_services_and_is_swept() {
    let temp_dir = TempDir::new().expect("a directory");
    let (mut redis, target) = installed(&temp_dir);
    prepare(&target);
    let (mut app, url) = start_app(&target);
    let mut writer = start_unit("stampede-writer.service", &target);
    let find_channel = |line: &str| line.contains("stampede:doorbell").then_some(());
    writer.wait_for_line("its channel", TIMEOUT, find_channel).unwrap_or_else(|error| panic!("{error:#}"));

    let shop = Shop { http: HttpClient::new(&url), variables: read_variables(&target.join("etc/stampede/env")) };
    shop.publish("kit").await;
    let (order_no, jwt) = shop.place_order("kit", "ada").await;
    // No sweeper has run: the order writer wrote the order.
    shop.wait_until_pending(&order_no, &jwt).await;
    send_stripe_payment(&shop.http, &shop.variables, &order_no).await.is(204);
    shop.wait_until_paid(&order_no, &jwt).await;

    let address = url.trim_start_matches("http://");
    let mut sweeper = unit_command("stampede-sweeper.service", &target, address);
    let swept = sweeper.output().expect("sweep");
    assert!(swept.status.success() && swept.stderr.is_empty(), "{swept:?}");
    let refused = sweeper.env("SPIN_VARIABLE_CRON_TOKEN", "wrong").output().expect("sweep");
    assert!(!refused.status.success(), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("unauthenticated"), "{refused:?}");

    // Without Redis the writer exits, and systemd would restart it. The HTTP service keeps running.
    redis.kill();
    let ended = poll::until("the writer's end", TIMEOUT, || {
        Ok(writer.exited().map_or(Probe::Pending("it runs"), Probe::Ready))
    });
    ended.unwrap_or_else(|error| panic!("{error:#}: {}", writer.output()));
    shop.http.get("/healthz", "").await.is(200);
    redis.restart().expect("Redis");
    // The line of shell in place of the timer writes orders, too.
    let (order_no, jwt) = shop.place_order("kit", "eve").await;
    let _sweeper = start_sweeping(&url, shop.variables.get("cron_token"));
    shop.wait_until_pending(&order_no, &jwt).await;
    let mut writer = start_unit("stampede-writer.service", &target);
    writer.wait_for_line("its channel", TIMEOUT, find_channel).unwrap_or_else(|error| panic!("{error:#}"));
    let (order_no, jwt) = shop.place_order("kit", "bob").await;
    shop.wait_until_pending(&order_no, &jwt).await;
    assert!(app.exited().is_none(), "{}", app.output());
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn the_app_of_another_machine_listens_for_its_nginx_and_has_the_same_secrets() {
    let temp_dir = TempDir::new().expect("a directory");
    let (_redis, first) = installed(&temp_dir);
    let second = temp_dir.path().join("second");
    install_app_of(&first, &second);
    let settings = second.join("etc/stampede/env");
    let text = fs::read_to_string(&settings).expect("settings");
    fs::write(settings, text.replace("=0.0.0.0:3000", "=127.0.0.2:0")).expect("written");
    prepare(&second);
    let (_app, url) = start_app(&second);
    assert!(url.starts_with("http://127.0.0.2:"), "{url}");
    let secrets = read_variables(&first.join("etc/stampede/env"));
    HttpClient::new(&url).get("/readyz", secrets.get("admin_token")).await.is(200);
}
