//! `install` of the self-hosted kit: what it copies, what it says is missing, and the way back (G9).

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use dev::{
    documents,
    poll::{self, Probe},
    ports,
    postgres::Postgres,
    redis::Redis,
    root,
};
use tempfile::TempDir;

use crate::release::unpacked;

/// The password in the access list of the tests.
const PASSWORD: &str = "a-password-of-the-tests";

fn kit() -> PathBuf {
    root::find().expect("the project").join("deploy/self-hosted")
}

/// Starts a Redis with the settings and the access list of the kit.
fn start_redis(directory: &Path) -> Redis {
    let (conf, acl) = (directory.join("stampede.conf"), directory.join("stampede.acl"));
    let read = |file: &str| fs::read_to_string(kit().join(file)).expect("a file of the kit");
    fs::write(&acl, read("stampede.acl").replace("PASSWORD", PASSWORD)).expect("written");
    fs::write(&conf, read("redis.conf").replace("/etc/redis/stampede.acl", &acl.to_string_lossy())).expect("written");
    let port = ports::pick_unused().expect("a port");
    let settings = ["--include", &conf.to_string_lossy()];
    Redis::start_with(&directory.join("redis"), port, None, &settings).expect("Redis")
}

/// The URL for the app's user.
pub fn redis_url(redis: &Redis) -> String {
    format!("redis://stampede:{PASSWORD}@127.0.0.1:{}", redis.port())
}

/// Runs the `install` of `project` with `target` in place of `/`.
fn install(project: &Path, arguments: &[&str], target: &Path) -> Output {
    let script = project.join("deploy/self-hosted/install");
    Command::new(script).args(arguments).arg(target).output().expect("install")
}

fn printed(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The commands in a file of the kit.
fn commands(file: &str) -> Vec<String> {
    documents::commands(&fs::read_to_string(kit().join(file)).expect("a file of the kit"))
}

/// Runs a command of shell in the folder of the kit, and returns what it prints.
fn run_in_kit(command: &str) -> String {
    let output = Command::new("bash").current_dir(kit()).args(["-c", command]).output().expect("bash");
    assert!(output.status.success(), "{command}: {}", printed(&output));
    printed(&output)
}

/// Sets variables in the settings of an installation.
fn set(target: &Path, variables: &[(&str, &str)]) {
    let path = target.join("etc/stampede/env");
    let mut text = fs::read_to_string(&path).expect("settings");
    for (name, value) in variables {
        text += &format!("SPIN_VARIABLE_{name}={value}\n");
    }
    fs::write(path, text).expect("written");
}

/// What an operator writes into a file that the kit's README opens.
fn edit(file: &str, target: &Path) {
    match file {
        "/etc/stampede/env" => set(
            target,
            &[
                ("SHOP_URL", "https://shop.example"),
                ("JWT_KEY", "kX9v2mQ7Lr4tY8wZ1nB6cD3fG5hJ0pS-"),
                ("STRIPE_API_KEY", "sk_live_tests"),
                ("STRIPE_SECRET", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"),
            ],
        ),
        "/etc/nginx/stampede-listen.conf" => replace(target, file, "sale.example", "drop.example"),
        "/etc/nginx/stampede-operators.conf" => replace(target, file, "# allow 192.0.2.0/24", "allow 192.0.2.7"),
        _ => panic!("what is to be written into {file}?"),
    }
}

fn replace(target: &Path, file: &str, from: &str, to: &str) {
    let path = target.join(&file[1..]);
    let text = fs::read_to_string(&path).expect("a file");
    assert!(text.contains(from), "{file}: {text}");
    fs::write(path, text.replace(from, to)).expect("written");
}

/// Does what the kit's README says: runs its commands in a release or a working copy, with `target` in place of `/`.
/// Returns what the last `install` printed.
fn follow_the_readme(release: &Path, target: &Path) -> Output {
    let certificates = target.join("etc/ssl/stampede");
    fs::create_dir_all(&certificates).expect("a directory");
    for file in ["fullchain.pem", "privkey.pem"] {
        fs::write(certificates.join(file), "").expect("a file");
    }
    let mut output = None;
    for command in commands("README.md") {
        match command.split_once(' ') {
            Some(("sudo", "deploy/self-hosted/install")) => output = Some(install(release, &[], target)),
            Some(("sudoedit", file)) => edit(file, target),
            _ => {}
        }
    }
    output.expect("an installation")
}

/// Installs the working copy into a directory, and returns that and the Redis that it needs.
pub fn installed(temp_dir: &TempDir) -> (Redis, PathBuf) {
    let (redis, target) = (start_redis(temp_dir.path()), temp_dir.path().join("root"));
    let project = root::find().expect("the project");
    follow_the_readme(&project, &target);
    set(&target, &[("REDIS_URL", &redis_url(&redis)), ("REDIS_HOST", &redis.url())]);
    let output = install(&project, &[], &target);
    assert!(output.status.success(), "{}", printed(&output));
    (redis, target)
}

#[test]
fn a_release_becomes_the_current_one_when_nothing_is_missing_and_the_one_before_it_by_rollback() {
    let temp_dir = TempDir::new().expect("a directory");
    let (release, target) = (unpacked(temp_dir.path()), temp_dir.path().join("root"));
    let closed = format!("redis://127.0.0.1:{}", ports::pick_unused().expect("a port"));
    let first = install(&release, &[], &target);
    let text = printed(&first);
    let empty = ["SHOP_URL is empty", "JWT_KEY is empty", "STRIPE_API_KEY", "STRIPE_SECRET"];
    for missing in empty.iter().chain(&["server_name", "fullchain.pem", "privkey.pem"]) {
        assert!(text.contains(missing), "{missing}: {text}");
    }
    let current = target.join("opt/stampede/current");
    assert!(!first.status.success() && text.contains("Nothing was started") && !current.exists(), "{text}");
    let settings = fs::metadata(target.join("etc/stampede/env")).expect("settings").permissions().mode();
    assert_eq!(settings & 0o777, 0o600);
    let secrets = fs::read_to_string(target.join("etc/stampede/env")).expect("settings");
    let sweep = fs::read_to_string(target.join("etc/stampede/sweep.env")).expect("settings");
    assert!(sweep.starts_with("SPIN_VARIABLE_CRON_TOKEN=") && secrets.contains(&sweep), "{sweep}");

    set(&target, &[("REDIS_URL", &closed)]);
    assert!(printed(&follow_the_readme(&release, &target)).contains("Connection refused"));
    let redis = start_redis(temp_dir.path());
    let doorbell = || fs::read_to_string(target.join("etc/stampede/doorbell.env")).expect("settings");
    set(&target, &[("REDIS_URL", &format!("'{} {closed}'", redis_url(&redis)))]);
    assert!(printed(&install(&release, &[], &target)).contains("Connection refused"), "one of two does not answer");
    assert_eq!(doorbell(), format!("SPIN_VARIABLE_DOORBELL_URL={}\n", redis_url(&redis)));
    set(&target, &[("REDIS_URL", &redis_url(&redis)), ("DOORBELL_URL", &closed)]);
    let complete = install(&release, &[], &target);
    assert!(complete.status.success(), "{}", printed(&complete));
    assert_eq!(doorbell(), format!("SPIN_VARIABLE_DOORBELL_URL={closed}\n"));
    let sysctl = fs::read_to_string(target.join("etc/sysctl.d/stampede.conf")).expect("settings of the kernel");
    let name = sysctl.lines().find_map(|line| line.strip_prefix('-')?.split(" =").next()).expect("a setting");
    let is_known = Path::new("/proc/sys").join(name.replace('.', "/")).exists();
    assert_ne!(printed(&complete).contains(&format!("This kernel has no {name} ")), is_known);
    let refused = install(&release, &["rollback"], &target);
    assert!(!refused.status.success() && printed(&refused).contains("no release before"), "{}", printed(&refused));
    let version = fs::read_link(&current).expect("a link");

    // A damaged archive is refused; the next release becomes the current one.
    fs::write(release.join("VERSION"), "9.9.9\n").expect("written");
    assert!(!install(&release, &[], &target).status.success());
    fs::remove_file(release.join("SHA256SUMS")).expect("removed");
    assert!(install(&release, &[], &target).status.success());
    assert_eq!(fs::read_link(&current).expect("a link"), Path::new("releases/9.9.9"));
    // The release before is older than a file of the kit.
    fs::remove_file(target.join("opt/stampede").join(&version).join("kit/sysctl.conf")).expect("removed");
    assert!(install(&release, &["rollback"], &target).status.success());
    assert_eq!(fs::read_link(&current).expect("a link"), version);
    // Secrets are made once.
    let kept = fs::read_to_string(target.join("etc/stampede/env")).expect("settings");
    assert!(kept.starts_with(&secrets), "{kept}");
}

/// Installs the app of `first` on another machine, whose root is `target`, as the kit's README says.
pub fn install_app_of(first: &Path, target: &Path) {
    let env = first.join("etc/stampede/env").to_string_lossy().into_owned();
    let project = root::find().expect("the project");
    for arguments in [&["--without-nginx", "--env", &env][..], &["--without-nginx"]] {
        let output = install(&project, arguments, target);
        assert!(output.status.success(), "{}", printed(&output));
    }
}

#[test]
fn another_app_takes_over_the_secrets_and_has_no_nginx() {
    let temp_dir = TempDir::new().expect("a directory");
    let (_redis, first) = installed(&temp_dir);
    let second = temp_dir.path().join("second");
    install_app_of(&first, &second);
    let settings = |target: &Path| fs::read_to_string(target.join("etc/stampede/env")).expect("settings");
    assert_eq!(settings(&second), settings(&first) + "SPIN_HTTP_LISTEN_ADDR=0.0.0.0:3000\n");
    assert!(second.join("opt/stampede/current/spin.toml").exists() && !second.join("etc/nginx").exists());
}

#[test]
fn without_a_start_all_is_installed_although_settings_are_missing() {
    let temp_dir = TempDir::new().expect("a directory");
    let output = install(&root::find().expect("the project"), &["--no-start"], temp_dir.path());
    assert!(output.status.success() && printed(&output).contains("SHOP_URL is empty"), "{}", printed(&output));
    for path in
        ["opt/stampede/current/spin.toml", "etc/nginx/conf.d/stampede.conf", "etc/systemd/system/stampede.service"]
    {
        assert!(temp_dir.path().join(path).exists(), "{path}");
    }
}

#[test]
fn a_ledger_that_the_role_cannot_use_is_named_and_the_kits_own_role_can() {
    let temp_dir = TempDir::new().expect("a directory");
    let (_redis, target) = installed(&temp_dir);
    let (project, postgres) = (root::find().expect("the project"), Postgres::ephemeral().expect("PostgreSQL"));
    let psql = |command: &str| {
        let command = command.replace("psql", &format!("psql --no-psqlrc '{}'", postgres.url()));
        run_in_kit(command.trim_start_matches("sudo -u postgres "))
    };
    psql("psql -c \"CREATE ROLE guest LOGIN PASSWORD 'guest'\"");
    set(&target, &[("LEDGER", &format!("postgres://guest:guest@127.0.0.1:{}/postgres", postgres.port()))]);
    assert!(printed(&install(&project, &[], &target)).contains("the role may not create tables"));

    let lines = psql(&commands("postgres.sql")[0]);
    let line = lines.lines().find_map(|line| line.strip_prefix("SPIN_VARIABLE_LEDGER=")).expect("a line for env");
    set(&target, &[("LEDGER", &line.replace(":5432", &format!(":{}", postgres.port())))]);
    let complete = install(&project, &[], &target);
    assert!(complete.status.success(), "{}", printed(&complete));
}

#[test]
fn a_redis_with_data_has_it_after_a_start_with_the_settings_of_the_kit() {
    let (temp_dir, port) = (TempDir::new().expect("a directory"), ports::pick_unused().expect("a port"));
    let (project, target) = (root::find().expect("the project"), temp_dir.path().join("root"));
    let before = Redis::start_with(&temp_dir.path().join("redis"), port, None, &["--appendonly", "no"]).expect("Redis");
    let redis_cli =
        |command: &str, port: u16| run_in_kit(&command.replace("redis-cli", &format!("redis-cli -p {port}")));
    redis_cli("redis-cli set order-1 paid", port);
    follow_the_readme(&project, &target);
    set(&target, &[("REDIS_URL", &before.url())]);
    assert!(printed(&install(&project, &[], &target)).contains("appendonly is off"));

    let [switch, wait] = &commands("redis.conf")[..] else { panic!("other commands") };
    redis_cli(switch, port);
    let written = poll::until("the append-only file", Duration::from_secs(10), || {
        let state = redis_cli(wait, port);
        let is_written = state.contains("aof_rewrite_in_progress:0");
        Ok(if is_written { Probe::Ready(()) } else { Probe::Pending(state) })
    });
    written.unwrap_or_else(|error| panic!("{error:#}"));
    drop(before);
    assert_eq!(redis_cli("redis-cli get order-1", start_redis(temp_dir.path()).port()), "paid\n");
}

#[test]
fn an_update_keeps_settings_and_shows_which_lines_of_an_edited_site_it_replaces() {
    let temp_dir = TempDir::new().expect("a directory");
    let (_redis, target) = installed(&temp_dir);
    let update = || printed(&install(&root::find().expect("the project"), &[], &target));
    let append = |path: &Path, line: &str| {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        fs::write(path, format!("{text}{line}\n")).expect("written");
    };
    let edited: Vec<_> = ["listen", "lanes", "operators", "operator-host", "cors"]
        .map(|part| format!("nginx/stampede-{part}.conf"))
        .into_iter()
        .chain(["stampede/env", "stampede/runtime-config.toml"].map(str::to_owned))
        .map(|file| target.join("etc").join(file))
        .collect();
    for path in &edited {
        append(path, "# mine");
    }
    assert!(!update().contains("stampede.conf"), "the site is as it was installed");
    let site = target.join("etc/nginx/conf.d/stampede.conf");
    append(&site, "# allow 192.0.2.1;");
    let shown = update();
    for path in &edited {
        assert!(fs::read_to_string(path).expect("a file").ends_with("# mine\n"), "{} is replaced", path.display());
    }
    let text = fs::read_to_string(kit().join("nginx/stampede.conf")).expect("the site");
    assert_eq!(fs::read_to_string(&site).expect("the site"), text);
    assert!(shown.contains("\n-# allow 192.0.2.1;\n"), "{shown}");
    let copy = shown.split_whitespace().find(|word| word.contains("stampede.conf.")).expect("the name of a copy");
    assert!(fs::read_to_string(copy).expect("a copy").ends_with("# allow 192.0.2.1;\n"), "{shown}");
    assert!(!copy.ends_with(".conf"), "nginx would load {copy}");
}

#[test]
fn everyone_can_read_what_is_served_whatever_the_umask_is_and_nginx_has_its_cache_directories() {
    let temp_dir = TempDir::new().expect("a directory");
    let target = temp_dir.path().join("root");
    let script = kit().join("install");
    // It ends before it would start anything, since settings are missing.
    Command::new("sh")
        .args(["-c", "umask 077; exec \"$0\" \"$1\""])
        .arg(script)
        .arg(&target)
        .output()
        .expect("install");
    let release =
        fs::read_dir(target.join("opt/stampede/releases")).expect("releases").next().expect("one").expect("one");
    for (path, mode) in [("target/static", 0o755), ("target/static/busy.html", 0o644)] {
        let permissions = fs::metadata(release.path().join(path)).expect("installed").permissions();
        assert_eq!(permissions.mode() & 0o777, mode, "{path}");
    }
    let site = fs::read_to_string(kit().join("nginx/stampede.conf")).expect("the site");
    let lines = site.lines().filter_map(|line| line.strip_prefix("proxy_cache_path /"));
    let directories: Vec<_> = lines.filter_map(|line| Path::new(line.split(' ').next()?).parent()).collect();
    assert_eq!(directories.len(), 2, "{directories:?}");
    for directory in directories {
        assert!(target.join(directory).is_dir(), "nginx does not make /{}", directory.display());
    }
}
