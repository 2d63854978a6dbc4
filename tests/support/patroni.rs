//! Runs the kit of deploy/patroni on this machine: etcd, two Patroni nodes and HAProxy, with the role and the database of
//! the self-hosted kit.
//!
//! Ports, directories and the values in capital letters are replaced. Tests cover the rest of the files as they are
//! shipped.

use std::{
    fs::{self, File},
    os::unix::fs::chown,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use dev::{
    http::Client,
    poll::{self, Probe},
    ports,
    postgres::{bin_directory, command_as, data_parent, unprivileged_user},
    process::{self, Process},
    root,
};
use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::redis_sentinel::haproxy_program;

const START_TIMEOUT: Duration = Duration::from_secs(60);
/// The password of the cluster's own roles, and of the app's.
const PASSWORD: &str = "patroni-test";

/// A running cluster. Fields are dropped in order: the directory is removed last.
pub struct Patroni {
    _haproxy: Process,
    nodes: [Node; 2],
    _etcd: Process,
    port: u16,
    ledger: String,
    _temp_dir: TempDir,
}

/// A machine with Patroni and PostgreSQL.
struct Node {
    process: Option<Process>,
    directory: PathBuf,
    port: u16,
    api: u16,
}

impl Patroni {
    /// Starts all, and waits until the standby is synchronous and the app's role and database are on both.
    ///
    /// # Errors
    /// If a program is not installed, or does not start in time.
    pub fn start() -> Result<Self> {
        let (temp_dir, _) = data_parent()?;
        let [port, etcd_port, peer_port] = [ports::pick_unused()?, ports::pick_unused()?, ports::pick_unused()?];
        let etcd = start_etcd(&temp_dir.path().join("etcd"), etcd_port, peer_port)?;
        let node = |name| Node::start(&temp_dir.path().join(name), name, etcd_port);
        let nodes = [node("a")?, node("b")?];
        let haproxy = start_haproxy(temp_dir.path(), port, &nodes)?;
        let mut patroni =
            Self { _haproxy: haproxy, nodes, _etcd: etcd, port, ledger: String::new(), _temp_dir: temp_dir };
        patroni.wait_until_synchronous()?;
        patroni.ledger = patroni.create_database()?;
        Ok(patroni)
    }

    /// The ledger's URL through HAProxy.
    pub fn url(&self) -> String {
        self.url_at(&format!("127.0.0.1:{}", self.port))
    }

    /// The ledger's URL with both servers, of which the driver chooses the primary.
    pub fn multi_host_url(&self) -> String {
        let url = self.url_at(&self.nodes.each_ref().map(|node| format!("127.0.0.1:{}", node.port)).join(","));
        format!("{url}&target_session_attrs=read-write&connect_timeout=2")
    }

    /// What allows the app to connect to both servers: the network of this machine, with a range of ports.
    pub fn network(&self) -> String {
        let ports = self.nodes.each_ref().map(|node| node.port);
        format!("postgres://127.0.0.0/8:{}..{}", ports[0].min(ports[1]), ports[0].max(ports[1]) + 1)
    }

    fn url_at(&self, hosts: &str) -> String {
        self.ledger.replace("127.0.0.1:5432", hosts)
    }

    /// The node that is the primary, if there is one.
    pub fn primary(&self) -> Option<usize> {
        (0..self.nodes.len()).find(|node| self.nodes[*node].answers("/primary"))
    }

    /// Waits until a node is the primary.
    ///
    /// # Errors
    /// After a minute, with the nodes' output.
    pub fn wait_until_primary(&self, node: usize) -> Result<()> {
        let primary = poll::until("a primary", START_TIMEOUT, || {
            let primary = self.primary();
            Ok(if primary == Some(node) { Probe::Ready(()) } else { Probe::Pending(format!("{primary:?}")) })
        });
        primary.with_context(|| self.output())
    }

    /// Waits until one node is the primary and the other its synchronous standby.
    ///
    /// # Errors
    /// After a minute, with the nodes' output.
    pub fn wait_until_synchronous(&self) -> Result<()> {
        let synchronous = poll::until("a synchronous standby", START_TIMEOUT, || {
            let standby = self.primary().map(|primary| &self.nodes[1 - primary]);
            let is_synchronous = standby.is_some_and(|standby| standby.answers("/synchronous"));
            Ok(if is_synchronous { Probe::Ready(()) } else { Probe::Pending("none") })
        });
        synchronous.with_context(|| self.output())
    }

    /// Kills every process of a node at once, as if its machine died.
    pub fn kill(&mut self, node: usize) {
        self.nodes[node].kill();
    }

    /// Stops every process of a node with `SIGSTOP`, as if its machine hung: it accepts connections, and answers nothing.
    pub fn freeze(&mut self, node: usize) {
        self.nodes[node].signal(Signal::SIGSTOP);
    }

    /// Starts a node again with its data: a killed one, or a frozen one, whose machine the watchdog resets.
    ///
    /// # Errors
    /// If Patroni cannot be started.
    pub fn bring_back(&mut self, node: usize) -> Result<()> {
        let node = &mut self.nodes[node];
        node.kill();
        node.run()
    }

    /// Makes the standby the primary, with the command of the kit's README.
    ///
    /// # Errors
    /// If patronictl fails.
    pub fn switch_over(&self) -> Result<()> {
        self.run("patronictl -c /etc/patroni/config.yml switchover --force")
    }

    /// Runs a command of shell of the kit, with the settings of the first node.
    ///
    /// # Errors
    /// If it fails.
    pub fn run(&self, command: &str) -> Result<()> {
        let command = command.replace("/etc/patroni/config.yml", &self.nodes[0].config().to_string_lossy());
        output_of(Command::new("bash").args(["-c", &command]), "bash").map(drop)
    }

    /// What programs of PostgreSQL need to reach the primary, and patronictl the first node's settings.
    pub fn environment(&self) -> [(&'static str, String); 5] {
        let config = self.nodes[0].config().to_string_lossy().into_owned();
        let (host, user, password) = ("127.0.0.1".to_owned(), "postgres".to_owned(), PASSWORD.to_owned());
        [
            ("PGHOST", host),
            ("PGPORT", self.port.to_string()),
            ("PGUSER", user),
            ("PGPASSWORD", password),
            ("PATRONICTL_CONFIG_FILE", config),
        ]
    }

    /// Kills both nodes, and deletes their data. etcd keeps what it knows of the cluster.
    ///
    /// # Errors
    /// If the data cannot be deleted.
    pub fn lose_everything(&mut self) -> Result<()> {
        for node in &mut self.nodes {
            node.kill();
            fs::remove_dir_all(node.directory.join("stampede"))?;
        }
        Ok(())
    }

    /// The last lines that the nodes wrote.
    pub fn output(&self) -> String {
        self.nodes.iter().filter_map(|node| node.process.as_ref()).map(Process::output).collect()
    }

    /// Runs the self-hosted kit's statements. Returns the ledger's URL that they print.
    fn create_database(&self) -> Result<String> {
        let statements = root::find()?.join("deploy/self-hosted/postgres.sql");
        let mut psql = Command::new("psql");
        psql.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "postgres", "-v"]);
        psql.arg(format!("password={PASSWORD}")).env("PGPASSWORD", PASSWORD).stdin(File::open(statements)?);
        let output = output_of(&mut psql, "psql")?;
        let lines = String::from_utf8(output.stdout)?;
        let url = lines.lines().find_map(|line| line.strip_prefix("SPIN_VARIABLE_LEDGER="));
        Ok(url.context("postgres.sql prints no URL")?.to_owned())
    }
}

impl Node {
    fn start(directory: &Path, name: &str, etcd_port: u16) -> Result<Self> {
        let [port, api] = [ports::pick_unused()?, ports::pick_unused()?];
        let mut node = Self { process: None, directory: directory.to_owned(), port, api };
        fs::create_dir(directory)?;
        let here = directory.to_string_lossy();
        let text = kit_file("patroni.yml")?
            .replace("NODE", name)
            .replace("ADDRESS:5432", &format!("127.0.0.1:{port}"))
            .replace("ADDRESS:8008", &format!("127.0.0.1:{api}"))
            .replace("ETCD", &format!("127.0.0.1:{etcd_port}"))
            .replace("PASSWORD", PASSWORD)
            .replace("/usr/lib/postgresql/15/bin", &bin_directory()?.to_string_lossy())
            .replace("/var/lib/postgresql/15", &here)
            .replace("/var/run/postgresql", &here);
        fs::write(node.config(), text)?;
        if let Some(owner) = unprivileged_user()? {
            for path in [directory, &node.config()] {
                chown(path, Some(owner.uid.as_raw()), Some(owner.gid.as_raw()))?;
            }
        }
        node.run()?;
        Ok(node)
    }

    fn config(&self) -> PathBuf {
        self.directory.join("patroni.yml")
    }

    fn run(&mut self) -> Result<()> {
        let mut patroni = command_as(unprivileged_user()?.as_ref(), Path::new("patroni"));
        self.process = Some(Process::spawn("patroni", patroni.arg(self.config()), None)?);
        Ok(())
    }

    /// Sends a signal to Patroni, and to PostgreSQL, which Patroni does not start as its child.
    fn signal(&self, signal: Signal) {
        let Some(patroni) = &self.process else { return };
        patroni.signal(signal);
        let postmaster = fs::read_to_string(self.directory.join("stampede/postmaster.pid")).unwrap_or_default();
        if let Some(pid) = postmaster.lines().next().and_then(|line| line.parse().ok()) {
            process::signal_with_children(pid, signal);
        }
    }

    fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        self.process = None;
    }

    fn answers(&self, path: &str) -> bool {
        let client = Client::new(&format!("http://127.0.0.1:{}", self.api), Duration::from_secs(2));
        client.get(path).is_ok_and(|response| response.status == 200)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

fn start_etcd(directory: &Path, port: u16, peer_port: u16) -> Result<Process> {
    let [client, peer] = [port, peer_port].map(|port| format!("http://127.0.0.1:{port}"));
    let mut etcd = Command::new("etcd");
    etcd.arg("--data-dir").arg(directory).args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    etcd.args(["--listen-peer-urls", &peer]);
    let mut process = Process::spawn("etcd", &mut etcd, None)?;
    let is_ready = |line: &str| line.contains("ready to serve client requests").then_some(());
    process.wait_for_line("etcd to be ready", START_TIMEOUT, is_ready)?;
    Ok(process)
}

fn start_haproxy(directory: &Path, port: u16, nodes: &[Node; 2]) -> Result<Process> {
    let [a, b] = nodes.each_ref().map(|node| (node.port, node.api));
    let mut text = kit_file("haproxy.cfg")?
        .replace("bind 127.0.0.1:5432", &format!("bind 127.0.0.1:{port}"))
        // Only root can change the user.
        .replace("    user haproxy\n    group haproxy\n", "");
    for (address, (port, api)) in [("10.0.0.1", a), ("10.0.0.2", b)] {
        let server = format!("{address}:5432 check port 8008");
        ensure!(text.contains(&server), "haproxy.cfg has no server {server}");
        text = text.replace(&server, &format!("127.0.0.1:{port} check port {api}"));
    }
    let config = directory.join("haproxy.cfg");
    fs::write(&config, text)?;
    let mut haproxy = Command::new(haproxy_program());
    let mut process = Process::spawn("haproxy", haproxy.arg("-f").arg(config), None)?;
    let ready = poll::until("haproxy to listen", START_TIMEOUT, || {
        if let Some(status) = process.exited() {
            bail!("haproxy ended with {status}");
        }
        Ok(if ports::accepts_connections(port) { Probe::Ready(()) } else { Probe::Pending("closed") })
    });
    ready.with_context(|| format!("haproxy wrote:\n{}", process.complete_output()))?;
    Ok(process)
}

fn kit_file(name: &str) -> Result<String> {
    let path = root::find()?.join("deploy/patroni").join(name);
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

fn output_of(command: &mut Command, name: &str) -> Result<Output> {
    let output = command.output().with_context(|| format!("cannot run {name}: is it installed?"))?;
    ensure!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(output)
}
