//! A Redis Cluster of three primaries on this machine, with or without replicas (G16).

use std::{process::Command, time::Duration};

use dev::{manifest::Manifest, ports, redis::Redis};
use redis::{Client, Connection, FromRedisValue, RedisResult};
use tempfile::TempDir;

use super::{TestApp, eventually};

const PRIMARIES: usize = 3;

/// A running cluster. Its servers are named by their index.
pub struct RedisCluster {
    /// The primaries, then the replicas.
    pub nodes: Vec<Redis>,
    _temp_dir: TempDir,
}

impl RedisCluster {
    /// Starts three primaries with `replicas` replicas each, and waits until every server knows the cluster.
    pub async fn start(replicas: usize) -> Self {
        let temp_dir = TempDir::new().expect("a directory");
        let (mut nodes, mut addresses) = (vec![], vec![]);
        for number in 0..PRIMARIES * (1 + replicas) {
            let [port, bus_port] = [(); 2].map(|()| ports::pick_unused().expect("a port"));
            let bus_port = bus_port.to_string();
            let settings = [
                ["--cluster-enabled", "yes"],
                ["--cluster-port", &bus_port],
                // Short where a replica takes over; servers of a busy machine that do not are to find each other well.
                ["--cluster-node-timeout", if replicas > 0 { "1000" } else { "15000" }],
                ["--cluster-require-full-coverage", "no"],
                // Every acknowledged write is in the file of a killed server.
                ["--appendfsync", "no"],
            ];
            let directory = temp_dir.path().join(number.to_string());
            nodes.push(Redis::start_with(&directory, port, None, settings.as_flattened()).expect("redis-server"));
            addresses.push(format!("127.0.0.1:{port}@{bus_port}"));
        }
        let mut create = Command::new("redis-cli");
        create.args(["--cluster", "create"]).args(addresses).args(["--cluster-replicas", &replicas.to_string()]);
        let created = create.arg("--cluster-yes").output().expect("redis-cli");
        assert!(created.status.success(), "{created:?}");
        let cluster = Self { nodes, _temp_dir: temp_dir };
        eventually("every server to know the cluster", async || {
            for node in 0..cluster.nodes.len() {
                let [state, nodes] = ["INFO", "NODES"].map(|part| cluster.query::<String>(node, &["CLUSTER", part]));
                let (state, nodes) = (state.expect("a state"), nodes.expect("a list"));
                if !state.contains("cluster_state:ok") || nodes.matches("slave").count() != PRIMARIES * replicas {
                    return Err(format!("{state}\n{nodes}"));
                }
            }
            Ok(())
        })
        .await;
        cluster
    }

    /// Starts an app on the cluster, and waits until its order writer has subscribed at the first server. The last server
    /// is the first of `redis_url`.
    pub async fn start_app(&self) -> TestApp {
        let app = TestApp::with_settings(&[], |settings| {
            let manifest = Manifest::read(&settings.root).expect("a manifest");
            // A whole app is not ready before it has subscribed at the Redis that it was started with.
            settings.components = [manifest.components_for("http"), manifest.components_for("redis")].concat();
            let ports: Vec<_> = self.nodes.iter().map(Redis::port).collect();
            let (first, last) = (ports.iter().min().expect("a port"), ports.iter().max().expect("a port"));
            settings.variables.set("redis_host", format!("redis://127.0.0.1:{first}..{}", last + 1));
            let urls: Vec<_> = self.nodes.iter().rev().map(Redis::url).collect();
            settings.variables.set("redis_url", urls.join(" "));
            settings.variables.set("doorbell_url", self.nodes[0].url());
        });
        eventually("the order writer to subscribe", async || {
            match self.query::<(String, u64)>(0, &["PUBSUB", "NUMSUB", "stampede:doorbell"]) {
                Ok((_, 1..)) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        app
    }

    /// Sends a command to one server, on a connection of its own.
    pub fn query<T: FromRedisValue>(&self, node: usize, command: &[&str]) -> RedisResult<T> {
        redis::cmd(command[0]).arg(&command[1..]).query(&mut self.connect(node)?)
    }

    fn connect(&self, node: usize) -> RedisResult<Connection> {
        let timeout = Duration::from_secs(5);
        let connection = Client::open(self.nodes[node].url())?.get_connection_with_timeout(timeout)?;
        connection.set_read_timeout(Some(timeout))?;
        Ok(connection)
    }

    /// The server that has a key, or the keys of an activity: its id is their hash tag.
    pub fn node_of(&self, key: &str) -> Option<usize> {
        (0..self.nodes.len()).find(|node| self.query::<i64>(*node, &["EXISTS", key]).is_ok())
    }

    /// An activity id whose keys are on this server.
    pub fn id_on(&self, node: usize) -> String {
        let mut ids = (1..1_000).map(|number| format!("sale-{number}"));
        ids.find(|id| self.node_of(id) == Some(node)).expect("an id")
    }

    /// The units left, held and sold of an activity's SKU `a`, whichever server has its counters while its slot moves.
    pub fn units(&self, activity: &str) -> [i64; 3] {
        let counters = (0..self.nodes.len()).find_map(|node| {
            let mut read = redis::pipe();
            read.cmd("ASKING").ignore();
            read.cmd("HMGET").arg(format!("{{{activity}}}:stats")).arg(&["left:a", "held:a", "sold:a"]);
            let (counters,): (Vec<Option<i64>>,) = read.query(&mut self.connect(node).ok()?).ok()?;
            counters[0].is_some().then_some(counters)
        });
        let counters = counters.expect("counters");
        [0, 1, 2].map(|index| counters[index].unwrap_or_default())
    }

    /// Waits up to a second until the replica of a primary has the activity's writes. Returns the number of such replicas.
    pub fn confirm_writes(&self, node: usize, activity: &str) -> u64 {
        // WAIT is about the last write of its own connection, which follows all others.
        let mut confirm = redis::pipe();
        confirm.cmd("SET").arg(format!("{{{activity}}}:confirmed")).arg(&["1", "PX", "60000"]).ignore();
        confirm.cmd("WAIT").arg(&[1, 1_000]);
        let (replicas,) = confirm.query(&mut self.connect(node).expect("a primary")).expect("a number");
        replicas
    }

    /// Begins to move an activity's slot to another primary.
    pub fn begin_move(&self, activity: &str, to: usize) -> SlotMove<'_> {
        let from = self.node_of(activity).expect("a server");
        let slot: u16 = self.query(from, &["CLUSTER", "KEYSLOT", activity]).expect("a slot");
        let id_of = |node| self.query::<String>(node, &["CLUSTER", "MYID"]).expect("an id");
        let (old_owner, new_owner) = (id_of(from), id_of(to));
        let slot_move = SlotMove { cluster: self, slot: slot.to_string(), from, to, new_owner };
        slot_move.set_slot(to, "IMPORTING", &old_owner);
        slot_move.set_slot(from, "MIGRATING", &slot_move.new_owner);
        slot_move
    }
}

/// The move of a slot, which may have any time between its steps.
pub struct SlotMove<'a> {
    cluster: &'a RedisCluster,
    slot: String,
    from: usize,
    to: usize,
    new_owner: String,
}

impl SlotMove<'_> {
    /// Moves a few keys. Returns whether there were any.
    pub fn move_keys(&self) -> bool {
        let find = ["CLUSTER", "GETKEYSINSLOT", &self.slot, "8"];
        let keys: Vec<String> = self.cluster.query(self.from, &find).expect("keys");
        if !keys.is_empty() {
            let port = self.cluster.nodes[self.to].port().to_string();
            let mut migrate = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
            migrate.extend(keys.iter().map(String::as_str));
            self.cluster.query::<()>(self.from, &migrate).expect("moved");
        }
        !keys.is_empty()
    }

    /// Gives the slot, of which all keys have been moved, to its new owner.
    pub fn end(self) {
        for node in [self.to, self.from] {
            self.set_slot(node, "NODE", &self.new_owner);
        }
    }

    fn set_slot(&self, node: usize, state: &str, id: &str) {
        self.cluster.query::<()>(node, &["CLUSTER", "SETSLOT", &self.slot, state, id]).expect("the slot's state");
    }
}
