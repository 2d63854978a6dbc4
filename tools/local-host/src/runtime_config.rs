//! Loads the runtime config (`--runtime-config-file`): files of the stores, and limits of connections.

use std::{
    path::{Path, PathBuf, absolute},
    sync::Arc,
};

use anyhow::Context as _;
use serde::Deserialize;

use crate::{
    connection_limit::ConnectionLimit,
    stores::{Database, KeyValueStore},
};

/// The resolved runtime config.
#[derive(Debug)]
pub struct RuntimeConfig {
    /// The directory of log files, or `None` if there are none.
    pub log_dir: Option<PathBuf>,
    /// The default key-value store.
    pub key_value: Arc<KeyValueStore>,
    /// The default database.
    pub sqlite: Arc<Database>,
    /// The limit of connections to PostgreSQL.
    pub postgres_connections: ConnectionLimit,
    /// The limit of connections to Redis.
    pub redis_connections: ConnectionLimit,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Empty: no log files.
    log_dir: Option<PathBuf>,
    #[serde(default)]
    key_value_store: Stores,
    #[serde(default)]
    sqlite_database: Stores,
    #[serde(default)]
    outbound_pg: Outbound,
    #[serde(default)]
    outbound_redis: Outbound,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stores {
    default: Option<Store>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case", tag = "type")]
enum Store {
    Spin { path: PathBuf },
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Outbound {
    max_connections: Option<usize>,
}

impl RuntimeConfig {
    /// Loads the file, if a path is given. Everything that it does not name is kept in `state_dir`.
    ///
    /// # Errors
    /// If the file cannot be read, contains what this host does not know, or a directory cannot be created.
    pub fn load(path: Option<&Path>, state_dir: &Path) -> anyhow::Result<Self> {
        let file = match path {
            None => File::default(),
            Some(path) => {
                let text = std::fs::read_to_string(path)
                    .with_context(|| format!("failed to read runtime config file '{}'", path.display()))?;
                toml::from_str(&text).with_context(|| {
                    format!("the runtime config file '{}' holds something that is not known here", path.display())
                })?
            }
        };
        let state_dir = absolute(state_dir)?;
        let log_dir = match file.log_dir {
            None => Some(state_dir.join("logs")),
            Some(path) if path.as_os_str().is_empty() => None,
            Some(path) => Some(absolute(path)?),
        };
        // As in Spin, the path of a key-value store is relative to the config file, that of a database to the working
        // directory.
        let key_value = match file.key_value_store.default {
            Some(Store::Spin { path: store }) => path.and_then(Path::parent).unwrap_or(Path::new("")).join(store),
            None => state_dir.join("sqlite_key_value.db"),
        };
        let sqlite = match file.sqlite_database.default {
            Some(Store::Spin { path }) => absolute(path)?,
            None => state_dir.join("sqlite_db.db"),
        };
        Ok(Self {
            log_dir,
            key_value: Arc::new(KeyValueStore::new(key_value)?),
            sqlite: Arc::new(Database::new(sqlite)?),
            postgres_connections: ConnectionLimit::new(file.outbound_pg.max_connections),
            redis_connections: ConnectionLimit::new(file.outbound_redis.max_connections),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> anyhow::Result<RuntimeConfig> {
        let root = tempfile::tempdir()?;
        let path = root.path().join("runtime-config.toml");
        std::fs::write(&path, text)?;
        RuntimeConfig::load(Some(&path), &root.path().join("state"))
    }

    #[test]
    fn stores_and_logs_are_kept_where_the_file_says_or_in_the_state_directory() {
        let config = load("").unwrap();
        assert!(config.log_dir.unwrap().ends_with("state/logs"));
        assert!(config.sqlite.to_string().ends_with("state/sqlite_db.db\""));
        let text = "log_dir = \"\"\n[key_value_store.default]\ntype = \"spin\"\npath = \"a.db\"";
        let config = load(text).unwrap();
        assert_eq!(config.log_dir, None);
        assert!(config.key_value.to_string().ends_with("/a.db\""));
    }

    #[tokio::test]
    async fn connections_are_limited_for_each_kind_of_server() {
        let config = load("[outbound_pg]\nmax_connections = 1\n[outbound_redis]\nmax_connections = 2").unwrap();
        let _one = config.postgres_connections.acquire().await;
        assert!(futures::poll!(std::pin::pin!(config.postgres_connections.acquire())).is_pending());
        let _two = (config.redis_connections.acquire().await, config.redis_connections.acquire().await);
        assert!(futures::poll!(std::pin::pin!(config.redis_connections.acquire())).is_pending());
    }

    #[test]
    fn unknown_keys_and_types_are_refused() {
        for bad in [
            "surprise = 1",
            "[key_value_store.default]\ntype = \"redis\"\nurl = \"redis://127.0.0.1\"",
            "[key_value_store.other]\ntype = \"spin\"\npath = \"a\"",
            "[sqlite_database.default]\ntype = \"libsql\"\nurl = \"http://a\"\ntoken = \"\"",
            "[sqlite_database.default]\ntype = \"spin\"\npath = \"a\"\nallow_attach_file = true",
            "[outbound_pg]\nsurprise = 1",
            "[outbound_redis]\nmax_connections = -1",
            "[[variables_provider]]\ntype = \"env\"",
        ] {
            assert!(load(bad).is_err(), "{bad} was accepted");
        }
    }
}
