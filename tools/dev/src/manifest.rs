//! Reads triggers and components from `spin.toml`, their only source.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context, Result};
use serde::Deserialize;

/// The parts of a manifest that the tools use.
#[derive(Debug, Deserialize)]
pub struct Manifest {
    #[serde(default, rename = "trigger")]
    triggers: BTreeMap<String, Vec<Trigger>>,
}

#[derive(Debug, Deserialize)]
struct Trigger {
    component: String,
    channel: Option<String>,
}

impl Manifest {
    /// Reads `spin.toml` of the project at `root`.
    pub fn read(root: &Path) -> Result<Self> {
        Self::read_file(&root.join("spin.toml"))
    }

    /// Reads the manifest at `path`.
    pub fn read_file(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("cannot read {}", path.display()))
    }

    /// Ids of the components with a trigger of type `kind` (`http` or `redis`), sorted.
    pub fn components_for(&self, kind: &str) -> Vec<String> {
        let called = self.triggers.get(kind).into_iter().flatten().map(|trigger| trigger.component.clone());
        called.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The Redis channels that trigger components.
    pub fn channels(&self) -> impl Iterator<Item = &str> {
        self.triggers.get("redis").into_iter().flatten().filter_map(|trigger| trigger.channel.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_found_by_trigger_type() {
        let manifest = Manifest::read(&crate::root::find().expect("the project")).expect("a manifest");
        assert_eq!(manifest.components_for("redis"), ["order-writer"]);
        assert_eq!(manifest.channels().collect::<Vec<_>>(), ["stampede:doorbell"]);
        assert!(manifest.components_for("http").contains(&"reserve".to_owned()));
    }

    #[test]
    fn spin_build_builds_each_component_and_spin_watch_looks_at_its_source() {
        let root = crate::root::find().expect("the project");
        let manifest: toml::Table = fs::read_to_string(root.join("spin.toml")).expect("read").parse().expect("TOML");
        for (id, component) in manifest["component"].as_table().expect("components") {
            let build = &component["build"];
            let command = format!("cargo build -p {id} --target wasm32-wasip2 --release");
            assert!(build["command"].as_str().is_some_and(|text| text.ends_with(&command)), "{build}");
            let globs = build["watch"].as_array().expect("globs").iter().filter_map(toml::Value::as_str);
            let watched: Vec<_> = globs.map(|glob| glob.trim_end_matches("/**/*")).collect();
            assert!(watched.contains(&&*format!("functions/{id}")), "{build}");
            assert!(watched.iter().all(|path| root.join(path).exists()), "{build}");
        }
    }
}
