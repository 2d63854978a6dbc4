//! Defines the test suites and the programs that each of them runs.

use std::{
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::engine::target_directory;

/// Variables of the app for the interop suite: where the events endpoint of the tests listens.
const INTEROP_VARIABLES: [&str; 2] =
    ["events_url=http://127.0.0.1:{port:events}/events", "events_host=http://127.0.0.1:{port:events}"];

/// More of them for payments by Stripe: without the sandbox, and where the Stripe server of the tests listens.
const STRIPE_VARIABLES: [&str; 6] = [
    "sandbox=off",
    "payment_provider=stripe",
    "stripe_api=http://127.0.0.1:{port:stripe}",
    "stripe_api_key=sk_test_stampede",
    "stripe_shipping_countries=DE AT",
    "shop_url=https://shop.example",
];

/// More of them for payments by a service of the shop.
const PAYMENT_SERVICE_VARIABLES: [&str; 5] = [
    "sandbox=off",
    "payment_provider=webhook",
    "payments_url=http://127.0.0.1:{port:payments}/calls",
    "payments_host=http://127.0.0.1:{port:payments}",
    "shop_url=https://shop.example",
];

/// More of them for a shop by Medusa, whose database is in the ledger's server: the token of `examples/shop`.
const MEDUSA_VARIABLES: [&str; 1] =
    ["operator_tokens=shop:read+fulfil:b25seS1mb3ItdGhlLXRlc3RzLW9mLWEtTWVkdXNhLXNob3A"];

/// All suites, the longest first. Suites that measure time run beside suites that mostly wait, not beside another suite that
/// causes load.
pub const RUN_ORDER: [&str; 9] =
    ["lint", "browser", "workflows", "interleavings", "unit", "deploy", "chaos", "e2e", "interop"];

/// A test suite.
pub struct Suite {
    /// The name on the command line.
    pub name: String,
    /// The programs to run, one after the other.
    pub steps: Vec<Step>,
    /// Directories of the Rust source whose tests, all of them, are in the programs.
    pub sources: Vec<PathBuf>,
}

/// A program of a suite.
pub struct Step {
    /// The name in failure reports.
    pub name: String,
    /// The command.
    pub command: Command,
    /// Whether the program counts as one test; otherwise its output says how many it ran.
    pub is_single_test: bool,
}

/// Builds the selected suites and returns them; all suites if `selected` is empty. `long` includes the long tests.
pub fn suites(root: &Path, selected: &[String], long: bool) -> Result<Vec<Suite>> {
    let is_selected = |name: &str| selected.is_empty() || selected.iter().any(|selected| selected == name);
    let mut suites = vec![lint(root), browser(root), interop(root, long)?];
    if selected.is_empty() || selected.iter().any(|name| suites.iter().all(|suite| suite.name != *name)) {
        suites.extend(rust(root, is_selected("unit"), long)?);
    }
    for name in selected {
        ensure!(suites.iter().any(|suite| suite.name == *name), "there is no suite {name:?}");
    }
    suites.retain(|suite| is_selected(&suite.name));
    suites.sort_by_key(|suite| RUN_ORDER.iter().position(|name| *name == suite.name));
    Ok(suites)
}

fn lint(root: &Path) -> Suite {
    let cargo = |name: &str, arguments: &[&str]| {
        // A lower priority, because suites that measure time run beside it.
        let mut command = Command::new("nice");
        command.current_dir(root).args(["-n", "10", "cargo"]).args(arguments);
        Step { name: name.to_owned(), command, is_single_test: true }
    };
    let npm = |folder: &str, script: &str| {
        let mut command = Command::new("npm");
        command.current_dir(root.join(folder)).args(["run", "--silent", script]);
        Step { name: format!("npm run {script} in {folder}"), command, is_single_test: true }
    };
    // For this machine only: no code of the functions is for WebAssembly alone.
    let clippy = ["clippy", "--release", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"];
    let clippy = cargo("cargo clippy", &clippy);
    let format = cargo("cargo fmt --check", &["fmt", "--all", "--check"]);
    let openapi = "tests/openapi";
    let steps = vec![npm(openapi, "lint"), npm(openapi, "types"), npm("clients/js", "test"), format, clippy];
    Suite { name: "lint".to_owned(), steps, sources: vec![] }
}

/// The suite `unit`, and one suite for each test target of the package `tests`.
fn rust(root: &Path, with_unit: bool, long: bool) -> Result<Vec<Suite>> {
    let mut suites: Vec<Suite> = vec![];
    // The same selections as in `scripts/build`, whose builds they share.
    let built = ["dev", "assets", "local-host"];
    let others: Vec<&str> =
        ["--workspace"].into_iter().chain(built.iter().flat_map(|name| ["--exclude", *name])).collect();
    build_tests(root, &others, long, &mut suites)?;
    if with_unit {
        let built: Vec<&str> = built.iter().flat_map(|name| ["-p", *name]).collect();
        build_tests(root, &built, long, &mut suites)?;
    }
    Ok(suites)
}

/// Builds the test programs of `packages` and adds them to their suites. Cargo prints its progress.
fn build_tests(root: &Path, packages: &[&str], long: bool, suites: &mut Vec<Suite>) -> Result<()> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root).args(["test", "--release", "--locked", "--no-run", "--tests"]);
    cargo.arg("--message-format=json-render-diagnostics").args(packages);
    let output = cargo.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    ensure!(output.status.success(), "the tests of a package do not compile: see the errors above");
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: Value = serde_json::from_str(line).with_context(|| format!("cargo wrote {line}"))?;
        let text = |pointer: &str| message.pointer(pointer).and_then(Value::as_str);
        let (Some(program), Some(manifest), Some(target)) =
            (text("/executable"), text("/manifest_path"), text("/target/name"))
        else {
            continue;
        };
        if message["profile"]["test"] != true {
            continue;
        }
        let directory = Path::new(manifest).parent().unwrap_or(root);
        // Like Cargo: in the package's directory, with its path in the environment.
        let mut command = Command::new(program);
        command.current_dir(directory).env("CARGO_MANIFEST_DIR", directory);
        command.env("CARGO_TARGET_DIR", target_directory(root)).args(long.then_some("--include-ignored"));
        let name = format!("{} {target}", directory.file_name().unwrap_or_default().display());
        let step = Step { name, command, is_single_test: false };
        let (suite, sources) = match directory == root.join("tests") {
            true => (target, vec![directory.join(target)]),
            false => ("unit", ["crates", "functions", "tools", "tests/support"].map(|path| root.join(path)).to_vec()),
        };
        match suites.iter_mut().find(|it| it.name == suite) {
            Some(suite) => suite.steps.push(step),
            None => suites.push(Suite { name: suite.to_owned(), steps: vec![step], sources }),
        }
    }
    Ok(())
}

fn with_app(root: &Path, directory: &str, name: &str, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Step {
    let mut command = Command::new(target_directory(root).join("release/with-app"));
    command.current_dir(root.join(directory)).args(arguments);
    Step { name: name.to_owned(), command, is_single_test: false }
}

fn browser(root: &Path) -> Suite {
    let step = with_app(root, "tests/browser", "playwright test", ["node_modules/.bin/playwright", "test"]);
    Suite { name: "browser".to_owned(), steps: vec![step], sources: vec![] }
}

/// Official client libraries and the examples of services, each with an app that calls the servers of the tests.
fn interop(root: &Path, long: bool) -> Result<Suite> {
    let step = |name: &str, more: &[&'static str], files: &[OsString]| {
        let variables = INTEROP_VARIABLES.iter().chain(more).flat_map(|variable| ["--variable", variable]);
        let node = ["node", "--test", "--test-reporter=tap", "--test-concurrency=1"];
        let program = variables.chain(node).map(OsStr::new).chain(files.iter().map(OsString::as_os_str));
        let mut step = with_app(root, "tests/interop", name, program);
        step.command.env("PYTHON", target_directory(root).join("interop/bin/python"));
        step
    };
    let mut files: Vec<OsString> =
        fs::read_dir(root.join("tests/interop"))?.map(|entry| Ok(entry?.file_name())).collect::<Result<_>>()?;
    files.retain(|file| file.to_string_lossy().ends_with(".test.js"));
    files.sort();
    let (stripe, files): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| file == "stripe.test.js");
    let (service, files): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| file == "payment_service.test.js");
    let (medusa, others): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| file == "medusa.test.js");
    let mut steps = vec![
        step("node --test stripe.test.js", &STRIPE_VARIABLES, &stripe),
        step("node --test payment_service.test.js", &PAYMENT_SERVICE_VARIABLES, &service),
        step("node --test", &[], &others),
    ];
    if long {
        let mut step = step("node --test medusa.test.js", &MEDUSA_VARIABLES, &medusa);
        step.command.env("STAMPEDE_LEDGER", "postgres").env("MEDUSA", target_directory(root).join("medusa"));
        steps.push(step);
    }
    Ok(Suite { name: "interop".to_owned(), steps, sources: vec![] })
}
