//! An installation that loses everything, and is restored as the READMEs of `deploy` say.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use dev::{app::Settings, postgres::Postgres, process::Process, root};
use support::{OrderWriter, Patroni, RedisSentinel, TestApp};
use tempfile::TempDir;
use tokio::{runtime::Handle, task::spawn_blocking};

const TIMEOUT: Duration = Duration::from_secs(60);

/// Where Redis and the ledger are. The first two have the Redis of [`TestApp`].
pub enum Stores {
    Sqlite,
    Postgres(Postgres),
    Kits(Box<Kits>),
}

/// The kits of Sentinel and Patroni, and the order writer that goes with Sentinel.
pub struct Kits {
    redis: RedisSentinel,
    patroni: Patroni,
    /// Patroni's node on which everything was until it was lost, and is restored.
    primary: usize,
    writer: Option<OrderWriter>,
}

impl Stores {
    pub async fn kits(patroni: Patroni) -> Self {
        let primary = patroni.primary().expect("a primary");
        Self::Kits(Box::new(Kits { redis: RedisSentinel::start().await, patroni, primary, writer: None }))
    }

    /// What the scripts need to reach the stores as an operator.
    fn environment(&self) -> Vec<(&str, String)> {
        match self {
            Self::Sqlite => vec![],
            Self::Postgres(postgres) => {
                let (host, user) = ("127.0.0.1".to_owned(), "postgres".to_owned());
                vec![("PGHOST", host), ("PGUSER", user), ("PGPORT", postgres.port().to_string())]
            }
            Self::Kits(kits) => {
                let password = [("REDISCLI_AUTH", kits.redis.operator_password().to_owned())];
                kits.patroni.environment().into_iter().chain(password).collect()
            }
        }
    }
}

/// An installation as the self-hosted kit lays it out below a directory.
pub struct Installation {
    pub app: TestApp,
    stores: Stores,
    root: PathBuf,
    backups: TempDir,
}

impl Installation {
    pub async fn start(backups: TempDir, mut stores: Stores) -> Self {
        let mut root = PathBuf::new();
        let mut lay_out = |settings: &mut Settings, ledger: &str| {
            root = settings.directory.join("root");
            settings.directory = root.join("var/lib/stampede");
            settings.variables.set_ledger(ledger).expect("a URL");
        };
        let app = match &mut stores {
            Stores::Sqlite => TestApp::with_settings(&[], |settings| lay_out(settings, "sqlite")),
            Stores::Postgres(postgres) => TestApp::with_settings(&[], |settings| lay_out(settings, &postgres.url())),
            Stores::Kits(kits) => {
                let ledger = kits.patroni.url();
                let (writer, app) = kits.redis.start_app(|settings| lay_out(settings, &ledger)).await;
                kits.writer = Some(writer);
                app
            }
        };
        for (file, text) in [
            ("stampede/env", app.variables.to_lines()),
            ("stampede/runtime-config.toml", read(&root.join("var/lib/stampede/runtime-config.toml"))),
            (
                "stampede/backup.env",
                stores.environment().iter().map(|(name, value)| format!("{name}={value}\n")).collect(),
            ),
            ("redis/stampede.conf", "maxclients 1000\n".to_owned()),
        ] {
            let path = root.join("etc").join(file);
            fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
            fs::write(path, text).expect("settings");
        }
        Self { app, stores, root, backups }
    }

    fn script(&self, name: &str) -> Command {
        let mut command = Command::new(root::find().expect("the project").join("deploy").join(name));
        command.envs(self.stores.environment());
        command
    }

    /// Runs `restore` with the app's address.
    fn restore_command(&self) -> Command {
        let mut command = self.script("backup/restore");
        command.args(["--app", &format!("http://127.0.0.1:{}", self.app.port())]);
        command
    }

    /// Runs `backup`, which reads `backup.env`, and returns the path that it prints.
    pub async fn back_up(&self) -> PathBuf {
        let mut command = self.script("backup/backup");
        self.stores.environment().iter().for_each(|(name, _)| _ = command.env_remove(name));
        command.arg(self.backups.path()).arg(&self.root);
        spawn_blocking(move || stdout(&mut command)).await.expect("a thread").trim_end().into()
    }

    /// Asks PostgreSQL for one text, as an operator.
    pub fn query_postgres(&self, query: &str) -> String {
        let mut psql = Command::new("psql");
        psql.args(["-XAtd", "postgres", "-c", query]).envs(self.stores.environment());
        stdout(&mut psql).trim_end().to_owned()
    }

    /// Kills every process and deletes all data and settings.
    pub fn lose_everything(&mut self) {
        self.app.with_app(|app| app.kill());
        let redis = self.app.with_redis(|redis| {
            redis.kill();
            redis.directory().to_owned()
        });
        let mut directories = vec![self.root.clone(), redis];
        match &mut self.stores {
            Stores::Sqlite => {}
            Stores::Postgres(postgres) => {
                postgres.crash();
                directories.push(postgres.directory());
            }
            Stores::Kits(kits) => {
                drop(kits.writer.take());
                kits.redis.lose_everything();
                kits.patroni.lose_everything().expect("lost");
            }
        }
        for directory in directories {
            fs::remove_dir_all(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        }
    }

    /// Installs the release, runs `restore` and starts what it asks for.
    pub fn restore(&mut self, backup: &Path, options: &[&str]) {
        // As `/` is: the users of the servers enter it.
        let mode = |path: &Path| fs::metadata(path).expect("a file").permissions().mode() & 0o777;
        fs::create_dir(&self.root).expect("ROOT");
        fs::set_permissions(&self.root, fs::Permissions::from_mode(0o755)).expect("a mode");
        let redis_conf = self.root.join("etc/redis/redis.conf");
        fs::create_dir_all(redis_conf.parent().expect("a directory")).expect("a directory");
        fs::write(&redis_conf, "port 6379\n").expect("what the package installs");
        stdout(self.script("self-hosted/install").arg("--no-start").arg(&self.root));
        let only = if self.restore_kits(backup, options) { &["--only", "app"][..] } else { options };
        let mut command = self.restore_command();
        command.args(only).arg(backup).arg(&self.root);
        let mut script = Process::spawn("restore", &mut command, None).expect("restore");
        let wait_for = |script: &mut Process, text: &str| {
            let found = script.wait_for_line(text, TIMEOUT, |line| line.contains(text).then_some(()));
            found.unwrap_or_else(|error| panic!("{error:#}"));
        };
        if !matches!(self.stores, Stores::Kits(_)) {
            wait_for(&mut script, "Start redis-server now");
            self.app.with_redis(|redis| redis.restart()).expect("Redis");
        }
        if let Stores::Postgres(postgres) = &mut self.stores {
            wait_for(&mut script, "Start postgresql now");
            postgres.crash_and_restart(Duration::ZERO).expect("PostgreSQL");
        }
        wait_for(&mut script, "Start stampede now");
        self.app.restart();
        wait_for(&mut script, "--resume");
        println!("{}", script.complete_output());
        assert_eq!(mode(&self.root), 0o755);
        assert_eq!(read(&self.root.join("etc/stampede/env")), self.app.variables.to_lines());
        assert_eq!(read(&redis_conf), "port 6379\ninclude /etc/redis/stampede.conf\n");
        if let Stores::Kits(kits) = &mut self.stores {
            kits.writer = Some(OrderWriter::start(&self.app));
        }
    }

    /// Restores Redis and PostgreSQL of the kits on the machines of the first primary. Returns whether there are any.
    fn restore_kits(&mut self, backup: &Path, options: &[&str]) -> bool {
        let restore = |part: &str, options: &[&str]| {
            let mut command = self.script("backup/restore");
            // There, the user postgres of the machine is asked.
            command.env_remove("PGHOST").args(["--only", part]).args(options).arg(backup);
            println!("{}", stdout(&mut command));
        };
        if !matches!(self.stores, Stores::Kits(_)) {
            return false;
        }
        restore("redis", &[]);
        restore("ledger", options);
        let Stores::Kits(kits) = &mut self.stores else { return false };
        Handle::current().block_on(kits.redis.start_again());
        let (patroni, primary) = (&mut kits.patroni, kits.primary);
        patroni.bring_back(primary).expect("Patroni");
        patroni.wait_until_primary(primary).expect("a primary");
        patroni.bring_back(1 - primary).and_then(|()| patroni.wait_until_synchronous()).expect("a synchronous standby");
        true
    }

    pub fn resume(&self) {
        println!("{}", stdout(self.restore_command().arg("--resume").arg(&self.root)));
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Runs a command that succeeds, and returns what it prints.
fn stdout(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}
