//! Types what docs/run-a-sale.md says, against an installation without sandbox (G21).

use std::{fs, process::Command};

use dev::{documents, root};
use reqwest::Method;
use serde_json::{Value, json};
use support::activity::{activity_spec, seconds_from_now, single_sku};

use crate::rehearsal::{Installation, load_generator};

/// What the machine of the app has beside the commands: the scripts of this build, and backups.
const MACHINE: &str = r#"set -euo pipefail
sudo() { echo "as root: $*"; }
scripts/stampede() {
  case $1 in rehearse) "$LOAD" "$@" --backups backups ;; *) "$LOAD" "$@" ;; esac
}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_the_day_says_what_the_document_says() {
    let installation = Installation::start();
    let document = fs::read_to_string(root::find().expect("the project").join("docs/run-a-sale.md")).expect("it");
    let spec = activity_spec(&json!({"starts_at": seconds_from_now(600), "skus": single_sku(10)}));
    fs::write(installation.directory.path().join("sale.json"), spec.to_string()).expect("written");
    let settings = format!("URL={} SETTINGS=env A=@header", installation.url());
    let commands = documents::commands(&document);
    assert!(commands[0].starts_with("URL="), "{commands:?}");
    // A test of its own closes a sale with payments.
    let typed: Vec<_> =
        commands[1..].iter().filter(|command| !command.starts_with("scripts/close ")).cloned().collect();
    let mut bash = Command::new("bash");
    bash.args(["-c", &format!("{MACHINE}{settings}\n{}", typed.join("\n"))]).env("LOAD", load_generator());
    bash.current_dir(installation.directory.path());
    let ended = tokio::task::spawn_blocking(move || bash.output()).await.expect("a thread").expect("bash");
    let printed = String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned();
    assert!(ended.status.success(), "{printed}");
    for part in
        ["\"draft\"", "every invariant held", "\nGO, but not checked", "\"published\"", "\"scheduled\"", "\"closed\""]
    {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    let sales = installation.app.call_admin(Method::GET, "/activities", &Value::Null).await.is(200).json();
    let left: Vec<_> = sales["items"].as_array().expect("sales").iter().map(|sale| &sale["id"]).collect();
    assert_eq!(left, ["spring-2026"], "the rehearsal is deleted");
}
