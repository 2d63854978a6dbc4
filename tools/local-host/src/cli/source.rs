//! Parses `--variable` flags and loads the files that they name.

use std::{collections::HashMap, fs, path::PathBuf, str::FromStr};

use anyhow::{Context as _, bail};

/// The argument of one `--variable` flag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VariableSource {
    /// `key=value`.
    Literal(String, String),
    /// `key=@file`: the value is the content of the file.
    ValueFile(String, PathBuf),
    /// `@file.json`: an object of strings.
    JsonFile(PathBuf),
    /// `@file.toml`: a table of strings.
    TomlFile(PathBuf),
}

impl VariableSource {
    /// Loads the variables of all sources. If a key occurs more than once, the last value is used.
    ///
    /// # Errors
    /// If a file cannot be read or parsed.
    pub fn read_all(sources: &[Self]) -> anyhow::Result<HashMap<String, String>> {
        let mut variables = HashMap::new();
        for source in sources {
            variables.extend(source.read()?);
        }
        Ok(variables)
    }

    fn read(&self) -> anyhow::Result<HashMap<String, String>> {
        let text = |path: &PathBuf| fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()));
        match self {
            Self::Literal(key, value) => Ok([(key.clone(), value.clone())].into()),
            Self::ValueFile(key, path) => Ok([(key.clone(), text(path)?)].into()),
            Self::JsonFile(path) => serde_json::from_str(&text(path)?)
                .with_context(|| format!("{} is no JSON object of strings", path.display())),
            Self::TomlFile(path) => {
                toml::from_str(&text(path)?).with_context(|| format!("{} is no TOML table of strings", path.display()))
            }
        }
    }
}

impl FromStr for VariableSource {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        if let Some(path) = text.strip_prefix('@') {
            let path = PathBuf::from(path);
            return match path.extension().and_then(|extension| extension.to_str()) {
                Some("json") => Ok(Self::JsonFile(path)),
                Some("toml") => Ok(Self::TomlFile(path)),
                _ => bail!("variable files must end in .json or .toml"),
            };
        }
        let Some((key, value)) = text.split_once('=') else {
            bail!("variables must be in the form 'key=value' or '@file'");
        };
        Ok(match value.strip_prefix('@') {
            Some(path) => Self::ValueFile(key.to_owned(), path.into()),
            None => Self::Literal(key.to_owned(), value.to_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_from_the_flag_or_from_files_and_the_last_wins() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &str| {
            let path = directory.path().join(name);
            fs::write(&path, content).unwrap();
            path.display().to_string()
        };
        let flags = [
            "a=1".to_owned(),
            format!("b=@{}", file("b.txt", "two")),
            format!("@{}", file("c.json", r#"{"c": "3", "a": "json"}"#)),
            format!("@{}", file("d.toml", "d = \"4\"")),
        ];
        let sources: Vec<VariableSource> = flags.iter().map(|flag| flag.parse().unwrap()).collect();
        let variables = VariableSource::read_all(&sources).unwrap();
        let expected = [("a", "json"), ("b", "two"), ("c", "3"), ("d", "4")];
        assert_eq!(variables, expected.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
    }

    #[test]
    fn anything_else_is_refused() {
        for bad in ["nope", "@what", "@wrong.kind"] {
            assert!(bad.parse::<VariableSource>().is_err(), "{bad:?} was accepted");
        }
    }
}
