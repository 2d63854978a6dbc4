//! Sources of variable values: fixed values, and the environment.

use std::{collections::HashMap, env::VarError, path::PathBuf, sync::OnceLock};

use anyhow::Context as _;

/// A source of variable values.
#[derive(Debug)]
pub enum Provider {
    /// Values from the command line.
    Static(HashMap<String, String>),
    /// `SPIN_VARIABLE_<NAME>` from the environment, else from a dotenv file.
    Env(Dotenv),
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
            Self::Env(dotenv) => {
                let key = format!("SPIN_VARIABLE_{}", name.to_ascii_uppercase());
                match std::env::var(&key) {
                    Ok(value) => Ok(Some(value)),
                    Err(VarError::NotPresent) => dotenv.get(&key),
                    Err(error) => Err(error).with_context(|| format!("failed to resolve env var {key}")),
                }
            }
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
    /// Names the file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), values: OnceLock::new() }
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
        std::fs::write(&path, "SPIN_VARIABLE_LOCAL_HOST_TEST=\"from file\"\n").unwrap();
        let provider = Provider::Env(Dotenv::new(path));
        assert_eq!(provider.get("local_host_test").unwrap().as_deref(), Some("from file"));
        assert_eq!(provider.get("local_host_test_b").unwrap(), None);
        // A missing file is no error.
        assert_eq!(Provider::Env(Dotenv::new("nowhere/.env")).get("local_host_test").unwrap(), None);
    }
}
