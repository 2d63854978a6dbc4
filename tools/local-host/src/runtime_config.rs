//! Loads the runtime config (`--runtime-config-file`): stores, directories and variable providers.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, bail};
use serde::Deserialize;

use crate::{
    connection_limit::ConnectionLimit,
    stores::{Database, KeyValueStore},
    variables::{EnvProvider, Provider},
};

/// Directories from the command line. An empty path means "none".
#[derive(Debug, Clone, Default)]
pub struct Directories {
    /// `--state-dir`.
    pub state: Option<PathBuf>,
    /// `--log-dir`.
    pub log: Option<PathBuf>,
}

/// The resolved runtime config.
#[derive(Debug)]
pub struct RuntimeConfig {
    /// The directory of log files, or `None` if there are none.
    pub log_dir: Option<PathBuf>,
    /// The memory limit of an instance, in bytes.
    pub max_instance_memory: Option<usize>,
    /// Key-value stores by label.
    pub key_value: HashMap<String, Arc<KeyValueStore>>,
    /// Databases by label.
    pub sqlite: HashMap<String, Arc<Database>>,
    /// The limit of connections to PostgreSQL.
    pub postgres_connections: ConnectionLimit,
    /// The limit of connections to Redis.
    pub redis_connections: ConnectionLimit,
    /// Sources of variables, by descending precedence. Values from the command line take precedence over them.
    pub providers: Vec<Provider>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    state_dir: Option<PathBuf>,
    log_dir: Option<PathBuf>,
    max_instance_memory: Option<usize>,
    #[serde(default)]
    key_value_store: HashMap<String, KeyValueSection>,
    #[serde(default)]
    sqlite_database: HashMap<String, DatabaseSection>,
    #[serde(default)]
    outbound_pg: OutboundSection,
    #[serde(default)]
    outbound_redis: OutboundSection,
    #[serde(default, alias = "config_provider")]
    variables_provider: Vec<ProviderSection>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case", tag = "type")]
enum KeyValueSection {
    Spin { path: Option<PathBuf> },
    Redis { url: String },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case", tag = "type")]
enum DatabaseSection {
    Spin {
        path: Option<PathBuf>,
        #[serde(default)]
        allow_attach_file: bool,
    },
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct OutboundSection {
    max_connections: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case", tag = "type")]
enum ProviderSection {
    Static { values: HashMap<String, String> },
    Env { prefix: Option<String>, dotenv_path: Option<PathBuf> },
}

impl RuntimeConfig {
    /// Loads the file, if a path is given, and applies Spin's defaults.
    ///
    /// # Errors
    /// If the file cannot be read, contains unknown keys or types, or a directory cannot be created.
    pub fn load(path: Option<&Path>, app_root: &Path, directories: &Directories) -> anyhow::Result<Self> {
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
        let config_dir = path.and_then(Path::parent);
        file.resolve(config_dir, app_root, directories)
    }
}

impl File {
    fn resolve(
        self,
        config_dir: Option<&Path>,
        app_root: &Path,
        directories: &Directories,
    ) -> anyhow::Result<RuntimeConfig> {
        let state_dir = match directories.state.clone().or(self.state_dir) {
            None => Some(app_root.join(".spin")),
            Some(path) => absolute_or_none(path)?,
        };
        let log_dir = match directories.log.clone().or(self.log_dir) {
            None => state_dir.as_ref().map(|directory| directory.join("logs")),
            Some(path) => absolute_or_none(path)?,
        };

        let mut key_value = HashMap::new();
        for (label, section) in self.key_value_store {
            let store = match section {
                KeyValueSection::Spin { path } => {
                    let path = path.map(|path| match config_dir {
                        Some(directory) => directory.join(path),
                        None => path,
                    });
                    KeyValueStore::sqlite(path)
                }
                KeyValueSection::Redis { url } => KeyValueStore::redis(&url),
            };
            let store = store.with_context(|| format!("in [key_value_store.{label}]"))?;
            key_value.insert(label, Arc::new(store));
        }
        if !key_value.contains_key("default") {
            let path = state_dir.as_ref().map(|directory| directory.join("sqlite_key_value.db"));
            key_value.insert("default".into(), Arc::new(KeyValueStore::sqlite(path)?));
        }

        let mut sqlite = HashMap::new();
        for (label, section) in self.sqlite_database {
            let DatabaseSection::Spin { path, allow_attach_file } = section;
            // As in Spin, these paths are relative to the working directory, not to the file.
            let path = path.map(std::path::absolute).transpose()?;
            let database =
                Database::new(path, allow_attach_file).with_context(|| format!("in [sqlite_database.{label}]"))?;
            sqlite.insert(label, Arc::new(database));
        }
        if !sqlite.contains_key("default") {
            let path = state_dir.as_ref().map(|directory| directory.join("sqlite_db.db"));
            sqlite.insert("default".into(), Arc::new(Database::new(path, false)?));
        }

        let mut providers: Vec<Provider> = self
            .variables_provider
            .into_iter()
            .map(|section| match section {
                ProviderSection::Static { values } => Provider::Static(values),
                ProviderSection::Env { prefix, dotenv_path } => Provider::Env(EnvProvider::new(prefix, dotenv_path)),
            })
            .collect();
        providers.push(Provider::Env(EnvProvider::new(None, Some(".env".into()))));

        Ok(RuntimeConfig {
            log_dir,
            max_instance_memory: self.max_instance_memory,
            key_value,
            sqlite,
            postgres_connections: ConnectionLimit::new(self.outbound_pg.max_connections),
            redis_connections: ConnectionLimit::new(self.outbound_redis.max_connections),
            providers,
        })
    }
}

/// Returns the absolute path of a configured directory, or `None` if it is empty.
fn absolute_or_none(path: PathBuf) -> anyhow::Result<Option<PathBuf>> {
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    Ok(Some(std::path::absolute(path)?))
}

impl RuntimeConfig {
    /// Checks that every store of a component is defined.
    ///
    /// # Errors
    /// An error that names the component and the label.
    pub fn ensure_stores<'a>(
        &self,
        component: &str,
        key_value: impl IntoIterator<Item = &'a String>,
        sqlite: impl IntoIterator<Item = &'a String>,
    ) -> anyhow::Result<()> {
        for label in key_value {
            if !self.key_value.contains_key(label) {
                bail!(
                    "unknown key_value_stores label {label:?} for component {component:?}; define \
                     [key_value_store.{label}] in a file given with `--runtime-config-file`"
                );
            }
        }
        for label in sqlite {
            if !self.sqlite.contains_key(label) {
                bail!(
                    "component {component:?} uses the database {label:?}, which is not defined; define \
                     [sqlite_database.{label}] in a file given with `--runtime-config-file`"
                );
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str, directories: &Directories) -> anyhow::Result<RuntimeConfig> {
        let root = tempfile::tempdir()?;
        let path = root.path().join("runtime-config.toml");
        std::fs::write(&path, text)?;
        RuntimeConfig::load(Some(&path), root.path(), directories)
    }

    #[test]
    fn there_are_always_default_stores() {
        let config = load("", &Directories::default()).unwrap();
        config.ensure_stores("c", &["default".to_owned()], &["default".to_owned()]).unwrap();
        assert!(config.log_dir.as_ref().unwrap().ends_with(".spin/logs"));
        assert!(config.ensure_stores("c", &["other".to_owned()], []).is_err());
    }

    #[test]
    fn an_empty_state_directory_keeps_everything_in_memory() {
        let none = Directories { state: Some(PathBuf::new()), log: None };
        let config = load("", &none).unwrap();
        assert_eq!(config.log_dir, None);
        assert_eq!(config.sqlite["default"].to_string(), "a temporary in-memory database");
    }

    #[tokio::test]
    async fn connections_are_limited_for_each_kind_of_server() {
        let text = "[outbound_pg]\nmax_connections = 1\n[outbound_redis]\nmax_connections = 2";
        let config = load(text, &Directories::default()).unwrap();
        let _one = config.postgres_connections.acquire().await;
        assert!(futures::poll!(std::pin::pin!(config.postgres_connections.acquire())).is_pending());
        let _two = (config.redis_connections.acquire().await, config.redis_connections.acquire().await);
        assert!(futures::poll!(std::pin::pin!(config.redis_connections.acquire())).is_pending());
    }

    #[test]
    fn unknown_keys_and_types_are_refused() {
        for bad in [
            "surprise = 1",
            "[key_value_store.default]\ntype = \"azure_cosmos\"",
            "[key_value_store.default]\ntype = \"redis\"",
            "[sqlite_database.default]\ntype = \"libsql\"\nurl = \"http://a\"\ntoken = \"\"",
            "[sqlite_database.default]\ntype = \"spin\"\nsurprise = 1",
            "[outbound_pg]\nsurprise = 1",
            "[outbound_redis]\nmax_connections = -1",
            "[outbound_http]\nmax_connections = 1",
        ] {
            assert!(load(bad, &Directories::default()).is_err(), "{bad} was accepted");
        }
    }
}
