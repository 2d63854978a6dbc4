//! Reads the workspace's packages from Cargo and builds their test programs.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// The packages of the workspace, by where they run.
#[derive(Debug, Default)]
pub struct Packages {
    /// Packages that run on the development machine.
    pub host: Vec<String>,
    /// Packages that run in WebAssembly.
    pub wasm: Vec<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
    /// The platform of the dependency; `None` for all platforms.
    target: Option<String>,
}

impl Packages {
    /// Reads the packages from `cargo metadata`. A package that depends on `spin-sdk`, directly or indirectly, runs in
    /// WebAssembly.
    ///
    /// # Errors
    /// If Cargo cannot read the workspace.
    pub fn read(root: &Path) -> Result<Self> {
        let mut cargo = Command::new("cargo");
        cargo.current_dir(root).args(["metadata", "--no-deps", "--format-version", "1", "--locked"]);
        let output = cargo.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
        ensure!(output.status.success(), "cargo metadata failed");
        Ok(Self::classify(&serde_json::from_slice::<Metadata>(&output.stdout)?))
    }

    fn classify(metadata: &Metadata) -> Self {
        let mut packages = Self::default();
        for package in &metadata.packages {
            let list = if depends_on_sdk(package, metadata) { &mut packages.wasm } else { &mut packages.host };
            list.push(package.name.clone());
        }
        packages
    }
}

fn depends_on_sdk(package: &Package, metadata: &Metadata) -> bool {
    // A dependency for one platform only does not decide where the package runs.
    let normal = package.dependencies.iter().filter(|it| it.kind.is_none() && it.target.is_none());
    normal.into_iter().any(|dependency| {
        let member = metadata.packages.iter().find(|member| member.name == dependency.name);
        dependency.name == "spin-sdk" || member.is_some_and(|member| depends_on_sdk(member, metadata))
    })
}

/// An executable that contains tests.
#[derive(Debug, Clone)]
pub struct TestProgram {
    /// The package.
    pub package: String,
    /// The target: a library, a program, or a test target.
    pub target: String,
    /// Whether it is a test target; otherwise the tests are the unit tests of a library or program.
    pub integration: bool,
    /// Path of the executable.
    pub path: PathBuf,
    /// The directory in which Cargo would run it.
    pub directory: PathBuf,
}

#[derive(Deserialize)]
struct Message {
    reason: String,
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
    package_id: Option<String>,
    target: Option<Target>,
    profile: Option<Profile>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Builds the test programs of `packages`. Cargo prints its progress.
///
/// # Errors
/// If a package does not compile.
pub fn build_tests(root: &Path, packages: &[impl AsRef<str>]) -> Result<Vec<TestProgram>> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root).args(["test", "--release", "--locked", "--no-run", "--tests"]);
    cargo
        .arg("--message-format=json-render-diagnostics")
        .args(packages.iter().flat_map(|package| ["-p", package.as_ref()]));
    let output = cargo.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    ensure!(output.status.success(), "the tests of a package do not compile: see the errors above");
    let messages = String::from_utf8_lossy(&output.stdout);
    messages.lines().filter_map(|line| parse_message(line).transpose()).collect()
}

fn parse_message(line: &str) -> Result<Option<TestProgram>> {
    let message: Message = serde_json::from_str(line).with_context(|| format!("cargo wrote {line}"))?;
    let parts = (message.executable, message.manifest_path, message.package_id, message.target, message.profile);
    let (Some(path), Some(manifest), Some(package), Some(target), Some(profile)) = parts else { return Ok(None) };
    if message.reason != "compiler-artifact" || !profile.test {
        return Ok(None);
    }
    Ok(Some(TestProgram {
        package: package_name(&package).to_owned(),
        integration: target.kind.iter().any(|kind| kind == "test"),
        target: target.name,
        path,
        directory: manifest.parent().map(Path::to_owned).unwrap_or_default(),
    }))
}

/// Reads the package's name from an id such as `path+file:///project/anywhere#domain@0.1.0`. An id `…/local-host#0.1.0`
/// has no name, because the directory is named like the package.
fn package_name(id: &str) -> &str {
    let (path, fragment) = id.rsplit_once('#').unwrap_or((id, ""));
    match fragment.split_once('@') {
        Some((name, _)) => name,
        None => path.rsplit('/').next().unwrap_or(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_that_depend_on_the_sdk_run_inside_webassembly() {
        let metadata: Metadata = serde_json::from_str(
            r#"{"packages": [
                {"name": "domain", "dependencies": [{"name": "serde", "kind": null}]},
                {"name": "platform", "dependencies": [{"name": "domain", "kind": null}, {"name": "spin-sdk", "kind": null}]},
                {"name": "reserve", "dependencies": [{"name": "platform", "kind": null}]},
                {"name": "bench", "dependencies": [{"name": "spin-sdk", "kind": "build"}]},
                {"name": "local-host", "dependencies":
                    [{"name": "spin-sdk", "kind": null, "target": "cfg(target_family = \"wasm\")"}]}]}"#,
        )
        .expect("metadata");
        let packages = Packages::classify(&metadata);
        assert_eq!(packages.host, ["domain", "bench", "local-host"]);
        assert_eq!(packages.wasm, ["platform", "reserve"]);
    }

    #[test]
    fn package_names_are_read_from_ids() {
        assert_eq!(package_name("path+file:///p/anywhere#domain@0.1.0"), "domain");
        assert_eq!(package_name("path+file:///p/crates/local-host#0.1.0"), "local-host");
    }

    #[test]
    fn only_test_programs_are_listed() {
        let artifact = |test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"path+file:///p/tests#tests@0.1.0",
                "manifest_path":"/p/tests/Cargo.toml","target":{{"name":"e2e","kind":["test"]}},
                "profile":{{"test":{test}}},"executable":"/p/target/release/deps/e2e-1"}}"#
            )
        };
        let found = parse_message(&artifact(true)).expect("JSON").expect("a program");
        assert_eq!((found.package.as_str(), found.target.as_str(), found.integration), ("tests", "e2e", true));
        assert!(parse_message(&artifact(false)).expect("JSON").is_none());
        assert!(parse_message(r#"{"reason":"build-finished","success":true}"#).expect("JSON").is_none());
    }
}
