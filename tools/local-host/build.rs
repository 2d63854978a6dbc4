//! Generates the bindings for Spin's interfaces from the WIT files of the `spin-sdk` package.
//!
//! The WIT files are read from Cargo's registry, so this repository holds no copy of them.
//! `bindgen!` takes their path only as a literal, so this script generates the source file that contains it.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a build that cannot go on says why and stops"
)]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

fn main() {
    let wit = spin_sdk_directory().join("wit");
    assert!(
        wit.join("deps").is_dir(),
        "the spin-sdk package has no WIT files at {}; local-host needs spin-sdk 7",
        wit.display()
    );
    let template = fs::read_to_string("src/bindings.in").expect("src/bindings.in is readable");
    let bindings = template.replace("{{ wit }}", &wit.display().to_string().escape_default().to_string());
    let target = Path::new(&env::var_os("OUT_DIR").expect("Cargo sets OUT_DIR")).join("bindings.rs");
    fs::write(&target, bindings).expect("OUT_DIR is writable");

    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/bindings.in");
    println!("cargo::rerun-if-changed={}", wit.display());
}

/// Returns the directory of the `spin-sdk` package that the lock file names.
fn spin_sdk_directory() -> PathBuf {
    let output = Command::new(env::var_os("CARGO").expect("Cargo sets CARGO"))
        // Without the filter Cargo would download the packages of every platform.
        .args(["metadata", "--format-version=1", "--filter-platform=wasm32-wasip2"])
        .output()
        .expect("`cargo metadata` can be run");
    assert!(
        output.status.success(),
        "`cargo metadata` failed, so the WIT files of spin-sdk cannot be found:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata = String::from_utf8(output.stdout).expect("Cargo writes UTF-8");
    manifest_path(&metadata)
        .and_then(|path| path.parent().map(Path::to_path_buf))
        .expect("`cargo metadata` lists spin-sdk 7; is it still a dependency of local-host?")
}

/// Returns the `manifest_path` of spin-sdk from the output of `cargo metadata`.
///
/// Searches the text, because a JSON parser would have to be compiled a second time for the build script.
fn manifest_path(metadata: &str) -> Option<PathBuf> {
    let package = metadata.split_once(r#""name":"spin-sdk","version":"7."#)?.1;
    let path = package.split_once(r#""manifest_path":""#)?.1.split_once('"')?.0;
    Some(PathBuf::from(path.replace(r"\\", r"\")))
}
