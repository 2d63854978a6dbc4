//! Sources of variable values: fixed values, and the environment.

use std::{collections::HashMap, env::VarError, path::PathBuf, sync::OnceLock};

use anyhow::Context as _;

/// A source of variable values.
#[derive(Debug)]
pub enum Provider {
    /// Values from the command line, or from a `static` provider of the runtime config.
    Static(HashMap<String, String>),
    /// Values from the environment.
    Env(EnvProvider),
}

impl Provider {
    /// Creates a provider with fixed values.
    #[cfg(test)]
    pub fn fixed<K: Into<String>, V: Into<String>>(values: impl IntoIterator<Item = (K, V)>) -> Self {
        Self::Static(values.into_iter().map(|(k, v)| (k.into(), v.into())).collect())
    }

    /// Returns the value, if this source has one.
    ///
    /// # Errors
    /// If an environment variable is not UTF-8, or the dotenv file is malformed.
    pub fn get(&self, name: &str) -> anyhow::Result<Option<String>> {
        match self {
            Self::Static(values) => Ok(values.get(name).cloned()),
            Self::Env(env) => env.get(name),
        }
    }
}

/// Reads `SPIN_VARIABLE_<NAME>` from the environment, then from a dotenv file.
#[derive(Debug)]
pub struct EnvProvider {
    prefix: String,
    dotenv: Option<Dotenv>,
}

impl EnvProvider {
    /// Creates a provider. `prefix` defaults to `SPIN_VARIABLE`; without `dotenv`, no file is read.
    pub fn new(prefix: Option<String>, dotenv: Option<PathBuf>) -> Self {
        Self { prefix: prefix.unwrap_or_else(|| "SPIN_VARIABLE".into()), dotenv: dotenv.map(Dotenv::new) }
    }

    fn get(&self, name: &str) -> anyhow::Result<Option<String>> {
        let key = format!("{}_{}", self.prefix, name.to_ascii_uppercase());
        match std::env::var(&key) {
            Ok(value) => Ok(Some(value)),
            Err(VarError::NotPresent) => match &self.dotenv {
                Some(dotenv) => dotenv.get(&key),
                None => Ok(None),
            },
            Err(error) => Err(error).with_context(|| format!("failed to resolve env var {key}")),
        }
    }
}

/// A dotenv file, read once on first use. It may be missing.
#[derive(Debug)]
pub struct Dotenv {
    path: PathBuf,
    values: OnceLock<HashMap<String, String>>,
}

impl Dotenv {
    fn new(path: PathBuf) -> Self {
        Self { path, values: OnceLock::new() }
    }

    fn get(&self, key: &str) -> anyhow::Result<Option<String>> {
        if let Some(values) = self.values.get() {
            return Ok(values.get(key).cloned());
        }
        let values = dotenvy::from_path_iter(&self.path)
            .into_iter()
            .flatten()
            .collect::<Result<HashMap<_, _>, _>>()
            .with_context(|| format!("{} is no valid dotenv file", self.path.display()))?;
        Ok(self.values.get_or_init(|| values).get(key).cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dotenv_file_is_read_when_the_environment_lacks_the_variable() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(".env");
        std::fs::write(&path, "LOCAL_HOST_TEST_A=\"from file\"\n").unwrap();
        let provider = EnvProvider::new(Some("LOCAL_HOST_TEST".into()), Some(path));
        assert_eq!(provider.get("a").unwrap().as_deref(), Some("from file"));
        assert_eq!(provider.get("b").unwrap(), None);
    }

    #[test]
    fn a_missing_dotenv_file_is_no_error() {
        let provider = EnvProvider::new(Some("LOCAL_HOST_TEST".into()), Some("nowhere/.env".into()));
        assert_eq!(provider.get("a").unwrap(), None);
    }
}
