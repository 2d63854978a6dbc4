//! Defines the test suites and the programs that each of them runs.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Result, ensure};

use super::workspace::{Packages, TestProgram, build_tests};
use crate::{engine::target_directory, manifest::TARGET};

/// The package in which each test target is a suite of its own.
const TESTS_PACKAGE: &str = "tests";
/// The local host has many dependencies of its own. Built separately, it shares its build with `scripts/up`.
const ENGINE_PACKAGE: &str = "local-host";
/// Variables of the app for the interop suite: where the Stripe server and the events endpoint of the tests listen.
const INTEROP_VARIABLES: [&str; 6] = [
    "payment_provider=stripe",
    "stripe_api=http://127.0.0.1:{port:stripe}",
    "stripe_api_key=sk_test_stampede",
    "shop_url=https://shop.example",
    "events_url=http://127.0.0.1:{port:events}/events",
    "events_host=http://127.0.0.1:{port:events}",
];

/// The longest suites first. Suites that measure time run beside suites that mostly wait, not beside another suite that
/// causes load.
const RUN_ORDER: [&str; 9] =
    ["lint", "browser", "workflows", "interleavings", "unit", "deploy", "chaos", "e2e", "interop"];

/// Maximum duration of a program; after that it counts as stuck.
const STEP_TIMEOUT: Duration = Duration::from_secs(60 * 60);

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
    /// How its tests are counted.
    pub counting: Counting,
    /// Maximum duration.
    pub timeout: Duration,
}

/// How the tests of a program are counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    /// From the program's output.
    Parsed,
    /// The program counts as one test.
    SingleTest,
}

/// Builds the selected suites and returns them; all suites if `selected` is empty. `long` includes the long tests.
///
/// # Errors
/// If a build fails or a selected suite does not exist.
pub fn suites(root: &Path, selected: &[String], long: bool) -> Result<Vec<Suite>> {
    let packages = Packages::read(root)?;
    let mut suites = vec![];
    if is_selected(selected, "lint") {
        suites.push(lint(root, &packages));
    }
    if root.join("tests/browser/package.json").is_file() && is_selected(selected, "browser") {
        suites.push(browser(root));
    }
    suites.extend(rust(root, &packages, selected, long)?);
    if root.join("tests/interop/package.json").is_file() && is_selected(selected, "interop") {
        suites.push(interop(root));
    }
    suites.sort_by_key(|suite| RUN_ORDER.iter().position(|name| *name == suite.name));
    for name in selected {
        ensure!(suites.iter().any(|suite| suite.name == *name), "there is no suite {name:?}");
    }
    Ok(suites)
}

fn is_selected(selected: &[String], name: &str) -> bool {
    selected.is_empty() || selected.iter().any(|selected_name| selected_name == name)
}

fn lint(root: &Path, packages: &Packages) -> Suite {
    let cargo = |name: &str, arguments: &[&str], packages: &[String]| {
        // A lower priority, because suites that measure time run beside it.
        let mut command = Command::new("nice");
        command.current_dir(root).args(["-n", "10", "cargo"]).args(arguments);
        command.args(packages.iter().flat_map(|package| ["-p", package]));
        if arguments[0] == "clippy" {
            command.args(["--", "-D", "warnings"]);
        }
        Step { name: name.to_owned(), command, counting: Counting::SingleTest, timeout: STEP_TIMEOUT }
    };
    // Redocly neither reports its use nor asks for a newer version of itself.
    let openapi = |script: &str| {
        let mut command = Command::new("npm");
        command.current_dir(root.join("tests/openapi")).args(["run", "--silent", script]);
        command.envs([("REDOCLY_TELEMETRY", "off"), ("REDOCLY_SUPPRESS_UPDATE_NOTICE", "true")]);
        let name = format!("npm run {script} in tests/openapi");
        Step { name, command, counting: Counting::SingleTest, timeout: STEP_TIMEOUT }
    };
    let clippy = ["clippy", "--release", "--locked"];
    let steps = vec![
        openapi("lint"),
        openapi("types"),
        cargo("cargo fmt --check", &["fmt", "--all", "--check"], &[]),
        cargo("clippy of the functions", &[&clippy[..], &["--target", TARGET]].concat(), &packages.wasm),
        cargo("clippy of the host programs", &[&clippy[..], &["--all-targets"]].concat(), &packages.host),
    ];
    Suite { name: "lint".to_owned(), steps, sources: vec![] }
}

/// The suite `unit`, and one suite for each test target of the package `tests`.
fn rust(root: &Path, packages: &Packages, selected: &[String], long: bool) -> Result<Vec<Suite>> {
    if !selected.is_empty() && selected.iter().all(|name| ["lint", "browser", "interop"].contains(&name.as_str())) {
        return Ok(vec![]);
    }
    let (engine, others): (Vec<&str>, Vec<&str>) =
        packages.host.iter().map(String::as_str).partition(|name| *name == ENGINE_PACKAGE);
    let mut programs = vec![];
    if is_selected(selected, "unit") {
        programs.extend(build_tests(root, &engine)?);
        // Logic of the functions that does not call Spin runs on the host too.
        programs.extend(build_tests(root, &packages.wasm)?);
    }
    programs.extend(build_tests(root, &others)?);

    let mut suites: Vec<Suite> = vec![];
    for program in programs {
        let name = if program.package == TESTS_PACKAGE && program.integration { &program.target } else { "unit" };
        if !is_selected(selected, name) {
            continue;
        }
        let step = step(root, &program, long);
        match suites.iter_mut().find(|suite| suite.name == *name) {
            Some(suite) => suite.steps.push(step),
            None => {
                let sources = match name {
                    "unit" => ["crates", "functions", "tools", "tests/support"].map(|path| root.join(path)).to_vec(),
                    _ => vec![root.join("tests").join(name)],
                };
                suites.push(Suite { name: name.to_owned(), steps: vec![step], sources });
            }
        }
    }
    Ok(suites)
}

fn step(root: &Path, program: &TestProgram, long: bool) -> Step {
    let mut command = Command::new(&program.path);
    // Like Cargo: in the package's directory, with its path in the environment.
    command.current_dir(&program.directory).env("CARGO_MANIFEST_DIR", &program.directory);
    command.env("CARGO_TARGET_DIR", target_directory(root));
    if long {
        command.arg("--include-ignored");
    }
    let name = format!("{} {}", program.package, program.target);
    Step { name, command, counting: Counting::Parsed, timeout: STEP_TIMEOUT }
}

fn browser(root: &Path) -> Suite {
    let directory = root.join("tests/browser");
    let mut command = Command::new(target_directory(root).join("release/with-app"));
    command.current_dir(&directory).args(["node", "--test", "--test-reporter=tap"]);
    let step = Step { name: "node --test".to_owned(), command, counting: Counting::Parsed, timeout: STEP_TIMEOUT };
    Suite { name: "browser".to_owned(), steps: vec![step], sources: vec![] }
}

/// Official client libraries of Node and Python, each with an app that calls the servers of the tests.
fn interop(root: &Path) -> Suite {
    let python = target_directory(root).join("interop/bin/python");
    let step = |name: &str, program: &[&OsStr]| {
        let mut command = Command::new(target_directory(root).join("release/with-app"));
        command.current_dir(root.join("tests/interop"));
        command.args(INTEROP_VARIABLES.iter().flat_map(|variable| ["--variable", variable]));
        command.args(program);
        Step { name: name.to_owned(), command, counting: Counting::Parsed, timeout: STEP_TIMEOUT }
    };
    let node = ["node", "--test", "--test-reporter=tap", "--test-concurrency=1"].map(OsStr::new);
    let python = [python.as_os_str(), OsStr::new("-m"), OsStr::new("unittest"), OsStr::new("discover")];
    let steps = vec![step("node --test", &node), step("python -m unittest", &python)];
    Suite { name: "interop".to_owned(), steps, sources: vec![] }
}
