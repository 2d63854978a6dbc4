//! Every dependency obeys deny.toml: its licence, its source, and what is banned.
//!
//! The GitHub workflow runs `cargo deny check`, which also reads the advisory database.
#![allow(clippy::expect_used, clippy::panic, reason = "a test that panics has failed")]

use std::{collections::BTreeSet, fs, process::Command};

use dev::root;
use serde_json::Value;

/// The lists of texts and tables in deny.toml.
fn list<'a>(rules: &'a toml::Table, table: &str, name: &str) -> &'a Vec<toml::Value> {
    rules[table][name].as_array().expect("a list")
}

/// Whether an SPDX expression can be met with `allowed` licences. `/` is the old form of `OR`.
fn is_allowed(expression: &str, allowed: &BTreeSet<&str>) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ").replace(" WITH ", "~");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    any_of(&words, &mut 0, allowed)
}

/// `a AND b OR c`: AND binds closer.
fn any_of(words: &[&str], at: &mut usize, allowed: &BTreeSet<&str>) -> bool {
    let mut result = all_of(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        result |= all_of(words, at, allowed);
    }
    result
}

fn all_of(words: &[&str], at: &mut usize, allowed: &BTreeSet<&str>) -> bool {
    let mut result = licence(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        result &= licence(words, at, allowed);
    }
    result
}

fn licence(words: &[&str], at: &mut usize, allowed: &BTreeSet<&str>) -> bool {
    let word = words.get(*at).copied().unwrap_or_default();
    *at += 1;
    if word == "(" {
        let result = any_of(words, at, allowed);
        *at += 1;
        return result;
    }
    allowed.contains(word.trim_end_matches('+').replace('~', " WITH ").as_str())
}

#[test]
fn a_licence_expression_needs_all_of_and_and_one_of_or() {
    let allowed = BTreeSet::from(["MIT", "Apache-2.0 WITH LLVM-exception", "ISC"]);
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("MIT OR GPL-3.0", true),
        ("GPL-3.0/MIT", true),
        ("MIT AND GPL-3.0", false),
        ("MIT AND (GPL-3.0 OR ISC)", true),
        ("(MIT OR ISC) AND GPL-3.0", false),
        ("Apache-2.0 WITH LLVM-exception", true),
        ("Apache-2.0", false),
        ("", false),
    ] {
        assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
    }
}

#[test]
fn every_dependency_has_an_allowed_licence_and_source() {
    let root = root::find().expect("the project");
    let rules: toml::Table = fs::read_to_string(root.join("deny.toml")).expect("deny.toml").parse().expect("TOML");
    let allowed: BTreeSet<&str> = list(&rules, "licenses", "allow").iter().filter_map(toml::Value::as_str).collect();
    let exceptions = list(&rules, "licenses", "exceptions");
    let banned: Vec<&str> = list(&rules, "bans", "deny").iter().filter_map(|it| it["crate"].as_str()).collect();

    // For this machine: packages of other platforms may not have been downloaded.
    let rustc = Command::new("rustc").arg("-vV").output().expect("rustc");
    let version = String::from_utf8(rustc.stdout).expect("UTF-8");
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).expect("a host");
    let mut cargo = Command::new("cargo");
    cargo.current_dir(&root).args(["metadata", "--format-version", "1", "--locked", "--offline", "--all-features"]);
    cargo.args(["--filter-platform", host]);
    let output = cargo.output().expect("cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    assert!(packages.len() > 100, "only {} packages", packages.len());
    for package in packages {
        let name = package["name"].as_str().expect("a name");
        let exception = exceptions.iter().find(|it| it["crate"].as_str() == Some(name));
        let more = exception.and_then(|it| it["allow"].as_array()).into_iter().flatten();
        let allowed: BTreeSet<&str> = allowed.iter().copied().chain(more.filter_map(toml::Value::as_str)).collect();
        let expression = package["license"].as_str().unwrap_or_default();
        assert!(is_allowed(expression, &allowed), "{name} has the licence {expression:?}");
        let source = package["source"].as_str();
        let is_ours = source.is_none();
        let is_registry = source == Some("registry+https://github.com/rust-lang/crates.io-index");
        assert!(is_ours || is_registry, "{name} comes from {source:?}");
        assert!(!banned.contains(&name), "{name} is banned");
    }
    for exception in exceptions {
        let name = exception["crate"].as_str().expect("a name");
        assert!(packages.iter().any(|package| package["name"] == name), "{name} is not used: remove its exception");
    }
}

#[test]
fn every_exception_has_a_reason_beside_it() {
    let text = fs::read_to_string(root::find().expect("the project").join("deny.toml")).expect("deny.toml");
    let lines: Vec<&str> = text.lines().collect();
    let mut checked = 0;
    for pair in lines.windows(2).filter(|pair| pair[1].trim_start().starts_with("{ crate")) {
        assert!(pair[0].trim_start().starts_with('#'), "no reason above: {}", pair[1]);
        checked += 1;
    }
    assert!(checked >= 3, "only {checked} exceptions were found");
}
