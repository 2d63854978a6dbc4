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
    #[serde(default)]
    files: Vec<toml::Value>,
}

#[derive(Debug, Deserialize)]
struct Build {
    command: Commands,
    #[serde(default)]
    watch: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Commands {
    One(String),
    Many(Vec<String>),
}

/// The commands that build the app.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct BuildPlan {
    /// Packages to build with one `cargo build --release --target wasm32-wasip2`.
    pub packages: Vec<String>,
    /// All other commands.
    pub steps: Vec<BuildStep>,
}

/// A build command that is not Cargo's. It runs only if its inputs have changed; Cargo tracks changes itself.
#[derive(Debug, PartialEq, Eq)]
pub struct BuildStep {
    /// The component that the command belongs to.
    pub component: String,
    /// The command line, for a shell.
    pub command: String,
    /// Globs of the command's inputs; empty if unknown.
    pub watch: Vec<String>,
    /// Directories that the component serves files from.
    pub files: Vec<String>,
}

impl Manifest {
    /// Reads `spin.toml` of the project at `root`.
    ///
    /// # Errors
    /// If the file is missing or not a valid manifest.
    pub fn read(root: &Path) -> Result<Self> {
        Self::read_file(&root.join("spin.toml"))
    }

    /// Reads the manifest at `path`.
    ///
    /// # Errors
    /// If the file is missing or not a valid manifest.
    pub fn read_file(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("cannot read {}", path.display()))
    }

    /// Ids of the components with a trigger of type `kind` (`http` or `redis`), sorted.
    #[must_use]
    pub fn components_for(&self, kind: &str) -> Vec<String> {
        let called = self.triggers.get(kind).into_iter().flatten().map(|trigger| trigger.component.clone());
        called.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The Redis channels that trigger components.
    pub fn channels(&self) -> impl Iterator<Item = &str> {
        self.triggers.get("redis").into_iter().flatten().filter_map(|trigger| trigger.channel.as_deref())
    }

    /// Collects the build commands. Cargo's commands are merged into one, because each call of Cargo has a start-up
    /// cost.
    #[must_use]
    pub fn plan(&self) -> BuildPlan {
        let mut plan = BuildPlan::default();
        for (id, component) in &self.components {
            let Some(build) = &component.build else { continue };
            let commands = match &build.command {
                Commands::One(command) => std::slice::from_ref(command),
                Commands::Many(commands) => commands,
            };
            for command in commands.iter().flat_map(|command| command.split("&&")).map(str::trim) {
                match cargo_package(command) {
                    Some(package) => plan.packages.push(package.to_owned()),
                    None => plan.steps.push(BuildStep {
                        component: id.clone(),
                        command: command.to_owned(),
                        watch: build.watch.clone(),
                        files: component.files.iter().filter_map(source_path).collect(),
                    }),
                }
            }
        }
        plan
    }
}

/// The package of `cargo build -p <package> --target wasm32-wasip2 --release`, with the arguments in any order; `None`
/// for any other command.
fn cargo_package(command: &str) -> Option<&str> {
    let mut words = command.strip_prefix("cargo build ")?.split_whitespace();
    let (mut package, mut target, mut release) = (None, false, false);
    while let Some(word) = words.next() {
        match word {
            "-p" | "--package" => package = words.next(),
            "--target" => target = words.next() == Some(TARGET),
            "--release" => release = true,
            _ => return None,
        }
    }
    package.filter(|_| target && release)
}

fn source_path(file: &toml::Value) -> Option<String> {
    file.get("source").unwrap_or(file).as_str().map(str::to_owned)
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
            spin_manifest_version = 2
            [component.admin]
            source = "target/wasm32-wasip2/release/admin.wasm"
            [component.admin.build]
            command = "cargo build -p admin --target wasm32-wasip2 --release"
            [component.static-files]
            files = [{ source = "target/static", destination = "/" }]
            [component.static-files.build]
            command = ["scripts/assets", "cargo build --release --target wasm32-wasip2 -p static-files"]
            watch = ["static/**/*"]
            [component.odd.build]
            command = "cargo build -p odd --target wasm32-wasip2 --release --features more"
            [component.bare]
            "#,
        )
        .expect("a manifest");
        let plan = manifest.plan();
        assert_eq!(plan.packages, ["admin", "static-files"]);
        let [odd, assets] = &plan.steps[..] else { panic!("{plan:?}") };
        assert_eq!(odd.component, "odd");
        assert_eq!((assets.command.as_str(), &assets.files[..]), ("scripts/assets", &["target/static".to_owned()][..]));
    }
}
