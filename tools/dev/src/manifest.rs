//! Reads triggers, components and build commands from `spin.toml`, their only source.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context, Result};
use serde::Deserialize;

/// The target of all functions.
pub const TARGET: &str = "wasm32-wasip2";

/// The parts of a manifest that the tools use.
#[derive(Debug, Deserialize)]
pub struct Manifest {
    #[serde(rename = "component")]
    components: BTreeMap<String, Component>,
    #[serde(default, rename = "trigger")]
    triggers: BTreeMap<String, Vec<Trigger>>,
}

#[derive(Debug, Deserialize)]
struct Trigger {
    component: String,
    channel: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Component {
    build: Option<Build>,
}

#[derive(Debug, Deserialize)]
struct Build {
    command: String,
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

    /// The packages to build with one `cargo build --release --target wasm32-wasip2`, because each call of Cargo has a
    /// start-up cost, and all other build commands.
    pub fn build_plan(&self) -> (Vec<String>, Vec<String>) {
        let (mut packages, mut others) = (vec![], vec![]);
        let builds = self.components.values().filter_map(|component| component.build.as_ref());
        for command in builds.flat_map(|build| build.command.split("&&")).map(str::trim) {
            match cargo_package(command) {
                Some(package) => packages.push(package.to_owned()),
                None => others.push(command.to_owned()),
            }
        }
        (packages, others)
    }
}

/// The package of `cargo build -p <package> --target wasm32-wasip2 --release`; `None` for any other command.
fn cargo_package(command: &str) -> Option<&str> {
    let package = command.strip_prefix("cargo build -p ")?.strip_suffix(" --target wasm32-wasip2 --release")?;
    Some(package).filter(|package| !package.contains(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_found_by_trigger_type() {
        let manifest = Manifest::read(&crate::root::find().expect("the project")).expect("a manifest");
        assert_eq!(manifest.components_for("redis"), ["order-writer"]);
        assert_eq!(manifest.channels().collect::<Vec<_>>(), ["stampede:doorbell"]);
        let http = manifest.components_for("http");
        assert_eq!(http.len() + 1, manifest.components.len());
        assert!(http.iter().all(|id| manifest.components.contains_key(id)), "{http:?}");
    }

    #[test]
    fn cargo_builds_are_merged_and_other_commands_kept() {
        let manifest: Manifest = toml::from_str(
            r#"
            [component.admin.build]
            command = "cargo build -p admin --target wasm32-wasip2 --release"
            [component.static-files.build]
            command = "scripts/assets && cargo build -p static-files --target wasm32-wasip2 --release"
            [component.odd.build]
            command = "cargo build -p odd --target wasm32-wasip2 --release --features more"
            [component.bare]
            "#,
        )
        .expect("a manifest");
        let (packages, others) = manifest.build_plan();
        assert_eq!(packages, ["admin", "static-files"]);
        assert_eq!(others, ["cargo build -p odd --target wasm32-wasip2 --release --features more", "scripts/assets"]);
    }
}
