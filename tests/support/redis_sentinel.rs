//! Three Redis servers with Sentinels behind HAProxy, from the files of `deploy/redis-sentinel` (G16).

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use dev::{app::Settings, manifest::Manifest, ports, process::Process, root, variables::Variables};
use nix::sys::signal::Signal;
use redis::{Client, FromRedisValue, RedisResult};
use tempfile::TempDir;

use super::{TestApp, eventually, order_writer::OrderWriter};

/// A Redis server, and the port of the Sentinel beside it.
struct Node {
    redis: Process,
    port: u16,
    sentinel_port: u16,
}

/// A running kit. Its nodes are named by their index; at first node 0 is the primary.
pub struct RedisSentinel {
    nodes: Vec<Node>,
    /// HAProxy, then the Sentinels.
    others: Vec<Process>,
    /// The settings of the app, `redis_url` among them: HAProxy's address with the app's user.
    variables: Variables,
    operator_passwords: [String; 2],
    temp_dir: TempDir,
}

fn kit(script: &str) -> Command {
    Command::new(root::find().expect("the project").join("deploy/redis-sentinel").join(script))
}

fn copy_directory(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").args([from, to]).status().expect("cp");
    assert!(status.success(), "{status}");
}

fn settings_in(temp_dir: &TempDir) -> PathBuf {
    temp_dir.path().join("kit")
}

fn spawn(program: &str, file: &Path) -> Process {
    Process::spawn(program, Command::new(program).arg(file), None).expect(program)
}

impl RedisSentinel {
    /// Starts all servers, and waits until Sentinel can fail over and HAProxy has found the primary.
    pub async fn start() -> Self {
        let temp_dir = TempDir::new().expect("a directory");
        let [haproxy_port, node_ports @ ..] = [(); 7].map(|()| ports::pick_unused().expect("a port"));
        let directory = settings_in(&temp_dir);
        let addresses = node_ports.chunks(2).map(|ports| format!("127.0.0.1:{}:{}", ports[0], ports[1]));
        let configured =
            kit("configure").arg(&directory).arg(haproxy_port.to_string()).args(addresses).output().expect("configure");
        assert!(configured.status.success(), "{configured:?}");
        copy_directory(&directory, &temp_dir.path().join("kept"));
        let read = |file: &str| fs::read_to_string(directory.join(file)).expect("a file of the kit");
        let mut variables = Variables::default();
        variables.read_lines(&read("env")).expect("variables");
        let operator = read("operator");
        let password = |name: &str| operator.split([' ', '\n', '=']).skip_while(|word| *word != name).nth(1);
        let operator_passwords =
            ["redis_password", "sentinel_password"].map(|name| password(name).expect("a password").to_owned());
        let nodes = node_ports.chunks(2).enumerate().map(|(index, ports)| {
            let redis = spawn("redis-server", &node_file(&temp_dir, index, "redis.conf"));
            Node { redis, port: ports[0], sentinel_port: ports[1] }
        });
        let nodes = nodes.collect();
        // Without `-W` HAProxy is one process, in the foreground.
        let mut haproxy = Command::new(haproxy_program());
        haproxy.arg("-f").arg(directory.join("haproxy.cfg"));
        let others = vec![Process::spawn("haproxy", &mut haproxy, None).expect("haproxy")];
        let mut kit = Self { nodes, others, variables, operator_passwords, temp_dir };
        kit.start_sentinels().await;
        kit
    }

    /// A Sentinel finds replicas when it asks the primary, at once and then every ten seconds.
    async fn start_sentinels(&mut self) {
        eventually("both replicas to be connected", async || {
            let info = self.query::<String>(0, &["INFO", "replication"]).map_err(|error| error.to_string())?;
            if info.contains("min_slaves_good_slaves:2") { Ok(()) } else { Err(info) }
        })
        .await;
        for index in 0..self.nodes.len() {
            self.others.push(spawn("redis-sentinel", &node_file(&self.temp_dir, index, "sentinel.conf")));
        }
        eventually("the Sentinels to know all servers, and HAProxy the primary", async || {
            for node in &self.nodes {
                let info: String = self.ask_sentinel(node, &["INFO", "sentinel"]).map_err(|error| error.to_string())?;
                if !info.contains("status=ok") || !info.contains("slaves=2,sentinels=3") {
                    return Err(info);
                }
            }
            let mut connection = Client::open(self.url()).and_then(|client| client.get_connection());
            connection.as_mut().map(drop).map_err(|error| error.to_string())
        })
        .await;
    }

    /// HAProxy's address, with the app's user.
    pub fn url(&self) -> &str {
        self.variables.get("redis_url")
    }

    /// Starts an app on HAProxy, and its order writer in a process of its own, as the kits do: waits until that has
    /// subscribed. `adjust` may change the app's settings.
    pub async fn start_app(&self, adjust: impl FnOnce(&mut Settings)) -> (OrderWriter, TestApp) {
        let app = TestApp::with_settings(&[], |settings| {
            settings.components = Manifest::read(&settings.root).expect("a manifest").components_for("http");
            self.variables.iter().for_each(|(name, value)| settings.variables.set(name, value));
            adjust(settings);
        });
        let writer = OrderWriter::start(&app);
        eventually("the order writer to subscribe", async || {
            match self.query::<(String, u64)>(self.primary(), &["PUBSUB", "NUMSUB", "stampede:doorbell"]) {
                Ok((_, 1..)) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        (writer, app)
    }

    /// The primary, as most Sentinels see it.
    pub fn primary(&self) -> usize {
        let command = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "stampede"];
        let named = |node: &Node| {
            let (_, port): (String, u16) = self.ask_sentinel(node, &command).ok()?;
            self.nodes.iter().position(|node| node.port == port)
        };
        let mut votes: Vec<_> = self.nodes.iter().filter_map(named).collect();
        votes.sort_unstable();
        votes[votes.len() / 2]
    }

    /// The replicas, if all servers run.
    pub fn replicas(&self) -> Vec<usize> {
        let primary = self.primary();
        (0..self.nodes.len()).filter(|node| *node != primary).collect()
    }

    /// Sends a command to one Redis, as an operator.
    pub fn query<T: FromRedisValue>(&self, node: usize, command: &[&str]) -> RedisResult<T> {
        ask(self.nodes[node].port, &self.operator_passwords[0], command)
    }

    fn ask_sentinel<T: FromRedisValue>(&self, node: &Node, command: &[&str]) -> RedisResult<T> {
        ask(node.sentinel_port, &self.operator_passwords[1], command)
    }

    /// Sends a signal to one Redis.
    pub fn signal(&self, node: usize, signal: Signal) {
        self.nodes[node].redis.signal(signal);
    }

    /// Starts a Redis again that has ended, with its data and the file that it has rewritten.
    pub fn restart(&mut self, node: usize) {
        self.nodes[node].redis.kill();
        self.nodes[node].redis = spawn("redis-server", &node_file(&self.temp_dir, node, "redis.conf"));
    }

    /// The password of the user `default`.
    pub fn operator_password(&self) -> &str {
        &self.operator_passwords[0]
    }

    /// Kills every Redis and Sentinel, and puts the files that `configure` wrote in place of theirs and all data.
    pub fn lose_everything(&mut self) {
        self.others.truncate(1);
        self.nodes.iter_mut().for_each(|node| node.redis.kill());
        fs::remove_dir_all(settings_in(&self.temp_dir)).expect("removed");
        copy_directory(&self.temp_dir.path().join("kept"), &settings_in(&self.temp_dir));
    }

    /// Starts every Redis and Sentinel again, and waits as [`RedisSentinel::start`] does.
    pub async fn start_again(&mut self) {
        (0..self.nodes.len()).for_each(|node| self.restart(node));
        self.start_sentinels().await;
    }

    /// Runs the kit's script for a planned failover.
    pub fn fail_over(&self) -> Output {
        kit("failover").arg(settings_in(&self.temp_dir)).output().expect("failover")
    }

    /// Waits until a server is a replica of the primary and has what it has.
    pub async fn wait_until_replica(&self, node: usize) {
        eventually("the server to follow the primary", async || {
            let info = self.query::<String>(node, &["INFO", "replication"]).map_err(|error| error.to_string())?;
            let follows = format!("master_port:{}\r\nmaster_link_status:up", self.nodes[self.primary()].port);
            if info.contains(&follows) { Ok(()) } else { Err(info) }
        })
        .await;
    }
}

fn node_file(temp_dir: &TempDir, node: usize, file: &str) -> PathBuf {
    settings_in(temp_dir).join(format!("node-{}", node + 1)).join(file)
}

/// HAProxy.
pub(crate) fn haproxy_program() -> &'static str {
    // Debian installs it in `/usr/sbin`, which is only on root's PATH.
    if Path::new("/usr/sbin/haproxy").is_file() { "/usr/sbin/haproxy" } else { "haproxy" }
}

fn ask<T: FromRedisValue>(port: u16, password: &str, command: &[&str]) -> RedisResult<T> {
    let timeout = Duration::from_secs(5);
    let client = Client::open(format!("redis://:{password}@127.0.0.1:{port}"))?;
    let mut connection = client.get_connection_with_timeout(timeout)?;
    connection.set_read_timeout(Some(timeout))?;
    redis::cmd(command[0]).arg(&command[1..]).query(&mut connection)
}
