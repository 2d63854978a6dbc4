//! Checks the fields and components of the SpinKube kit's resources and runs its cron job, without a cluster (G9).

use std::{fs, process::Command};

use dev::{manifest::Manifest, root};
use serde::Deserialize;
use serde_json::{Value, json};
use support::TestApp;

use crate::systemd_units::production_manifest;

/// The members of `SpinApp` (`core.spinkube.dev/v1alpha1`) that the kit uses. Another one is taken for a typo.
const KNOWN_MEMBERS: &str = "apiVersion kind metadata.name spec.image spec.executor spec.replicas spec.components \
    spec.checks.liveness.httpGet.path spec.checks.readiness.httpGet.path spec.checks.readiness.initialDelaySeconds \
    spec.checks.readiness.periodSeconds spec.resources.requests.cpu spec.resources.requests.memory \
    spec.resources.limits.cpu spec.resources.limits.memory spec.runtimeConfig.keyValueStores.name \
    spec.runtimeConfig.keyValueStores.type spec.runtimeConfig.keyValueStores.options.name \
    spec.runtimeConfig.keyValueStores.options.valueFrom.secretKeyRef.name \
    spec.runtimeConfig.keyValueStores.options.valueFrom.secretKeyRef.key spec.variables.name \
    spec.variables.valueFrom.secretKeyRef.name spec.variables.valueFrom.secretKeyRef.key \
    spec.variables.valueFrom.secretKeyRef.optional";

/// Asserts that all members of a value, which is at `path`, are known.
fn assert_known(value: &Value, path: &str) {
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(name, value)| assert_known(value, &format!("{path}.{name}")))
        }
        Value::Array(items) => items.iter().for_each(|item| assert_known(item, path)),
        _ => assert!(KNOWN_MEMBERS.split(' ').any(|known| path[1..] == *known), "{path}"),
    }
}

/// Parses the kit's three documents: the HTTP app, the order writer and the cron job.
fn documents() -> [Value; 3] {
    let path = root::find().expect("the project").join("deploy/spinkube/stampede.yaml");
    let text = fs::read_to_string(path).expect("resources");
    let documents = serde_yaml_ng::Deserializer::from_str(&text).map(|it| Value::deserialize(it).expect("YAML"));
    documents.collect::<Vec<_>>().try_into().expect("three documents")
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().expect("a list").iter().map(|item| item.as_str().expect("a string")).collect()
}

#[test]
fn both_apps_have_only_known_fields_and_run_the_components_of_the_manifest() {
    let root = root::find().expect("the project");
    let manifest = Manifest::read_file(&production_manifest(&root)).expect("a manifest");
    let [http, writer, _] = documents();
    for app in [&http, &writer] {
        assert_known(app, "");
        assert_eq!((&app["apiVersion"], &app["kind"]), (&json!("core.spinkube.dev/v1alpha1"), &json!("SpinApp")));
        let spec = &app["spec"];
        assert_eq!(spec["executor"], "containerd-shim-spin");
        assert!(spec["replicas"].as_u64() > Some(0), "{spec}");
        for kind in ["requests", "limits"] {
            assert!(spec["resources"][kind].as_object().is_some_and(|resources| !resources.is_empty()), "{spec}");
        }
    }
    assert_eq!(http["spec"]["image"], writer["spec"]["image"]);
    assert_ne!(http["metadata"]["name"], writer["metadata"]["name"]);
    assert_eq!(strings(&http["spec"]["components"]), manifest.components_for("http"));
    assert_eq!(strings(&writer["spec"]["components"]), manifest.components_for("redis"));

    let checks = &http["spec"]["checks"];
    let paths = ["liveness", "readiness"].map(|kind| &checks[kind]["httpGet"]["path"]);
    assert_eq!(paths, ["/.well-known/spin/health", "/healthz"]);
    assert!(writer["spec"]["checks"].is_null(), "the Redis-triggered application has HTTP health checks");
    let stores = http["spec"]["runtimeConfig"]["keyValueStores"].as_array().expect("stores");
    assert_eq!(stores.len(), 1, "{stores:?}");
    let store = [&stores[0]["name"], &stores[0]["type"], &stores[0]["options"][0]["name"]];
    assert_eq!(store, ["default", "redis", "url"]);
}

#[test]
fn both_apps_get_every_variable_from_the_secret_and_require_those_without_a_default() {
    let manifest = production_manifest(&root::find().expect("the project"));
    let declared: toml::Table = fs::read_to_string(manifest).expect("a manifest").parse().expect("TOML");
    let declared = declared["variables"].as_table().expect("variables");
    let [http, writer, job] = documents();
    for app in [&http, &writer] {
        let variables = app["spec"]["variables"].as_array().expect("variables");
        let names: Vec<_> = variables.iter().map(|variable| variable["name"].as_str().expect("a name")).collect();
        assert_eq!(names, declared.keys().collect::<Vec<_>>());
        for (name, variable) in names.into_iter().zip(variables) {
            let reference = &variable["valueFrom"]["secretKeyRef"];
            let key = format!("SPIN_VARIABLE_{}", name.to_ascii_uppercase());
            assert_eq!((&reference["name"], &reference["key"]), (&json!("stampede"), &json!(key)));
            // The default ledger, SQLite, would be a separate file in each pod.
            let needed = declared[name].get("required").is_some() || name.starts_with("ledger");
            assert_eq!(reference["optional"] == true, !needed, "{name}");
        }
    }
    let token = &job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["env"][2]["valueFrom"];
    assert_eq!(token["secretKeyRef"]["key"], "SPIN_VARIABLE_CRON_TOKEN");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_job_sweeps_eleven_times_and_fails_when_a_call_does() {
    let app = TestApp::shared();
    let [http, _, job] = documents();
    assert_eq!((job["apiVersion"].as_str(), job["kind"].as_str()), (Some("batch/v1"), Some("CronJob")));
    assert_eq!(
        (job["spec"]["schedule"].as_str(), job["spec"]["concurrencyPolicy"].as_str()),
        (Some("* * * * *"), Some("Forbid"))
    );
    let container = &job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0];
    let environment: Vec<_> = container["env"].as_array().expect("env").iter().map(|it| &it["name"]).collect();
    assert_eq!(environment, ["URL", "PAUSE", "TOKEN"]);
    assert_eq!(container["env"][0]["value"], format!("http://{}", http["metadata"]["name"].as_str().expect("a name")));
    assert_eq!((container["env"][1]["value"].as_str(), &container["command"]), (Some("5"), &json!(["sh", "-c"])));
    let script = container["args"][0].as_str().expect("a script").to_owned();
    let url = app.with_app(|app| app.url().to_owned());
    for (token, succeeds, word) in
        [(app.variables.get("cron_token"), true, "\"swept\""), ("wrong", false, "unauthenticated")]
    {
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).env("URL", &url).env("PAUSE", "0.05").env("TOKEN", token);
        let output = tokio::task::spawn_blocking(move || shell.output().expect("sh")).await.expect("an end");
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.success(), succeeds, "{output:?}");
        assert_eq!(stdout.lines().filter(|line| line.contains(word)).count(), 11, "{stdout}");
    }
}
