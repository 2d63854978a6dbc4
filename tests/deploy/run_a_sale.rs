//! Types what docs/run-a-sale.md says, against an installation without sandbox (G21).

use std::{fs, process::Command};

use dev::{documents, root};
use reqwest::Method;
use serde_json::{Value, json};
use support::activity::{activity_spec, seconds_from_now, single_sku};

use crate::rehearsal::Installation;

/// What the machine of the app has beside the unpacked archive: backups.
const MACHINE: &str = r#"set -euo pipefail
sudo() { echo "as root: $*"; }
scripts/stampede() {
  case $1 in rehearse) command scripts/stampede "$@" --backups ../../backups ;; *) command scripts/stampede "$@" ;; esac
}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_the_day_says_what_the_document_says() {
    let installation = Installation::start();
    let document = fs::read_to_string(root::find().expect("the project").join("docs/run-a-sale.md")).expect("it");
    let spec = activity_spec(&json!({"starts_at": seconds_from_now(600), "skus": single_sku(10)}));
    fs::write(installation.release.join("sale.json"), spec.to_string()).expect("written");
    // Nothing of the sale was paid: a test of its own closes one with payments.
    fs::write(installation.release.join("report.csv"), "[]").expect("written");
    let settings = format!(
        "URL={} SETTINGS={} A=@header",
        installation.url(),
        installation.directory.path().join("env").display()
    );
    let commands = documents::commands(&document);
    assert!(commands[0].starts_with("URL="), "{commands:?}");
    let mut bash = Command::new("bash");
    bash.args(["-c", &format!("{MACHINE}{settings}\n{}", commands[1..].join("\n"))]);
    bash.current_dir(&installation.release);
    let ended = tokio::task::spawn_blocking(move || bash.output()).await.expect("a thread").expect("bash");
    let printed = String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned();
    assert!(ended.status.success(), "{printed}");
    for part in [
        "\"draft\"",
        "every invariant held",
        "\nGO, but not checked",
        "\"published\"",
        "\"scheduled\"",
        "\"closed\"",
        "\nclosed",
    ] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    let sales = installation.app.call_admin(Method::GET, "/activities", &Value::Null).await.is(200).json();
    let left: Vec<_> = sales["items"].as_array().expect("sales").iter().map(|sale| &sale["id"]).collect();
    assert_eq!(left, ["spring-2026"], "the rehearsal is deleted");
}
