//! Checks the fields and components of the SpinKube kit's resources and runs its cron job, without a cluster (G9).

use std::{collections::BTreeMap, fs, process::Command};

use dev::{manifest::Manifest, root};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use support::TestApp;

use crate::systemd_units::production_manifest;

/// The part of `SpinApp` (`core.spinkube.dev/v1alpha1`) that the kit uses. An unknown field is taken for a typo.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct SpinApp {
    api_version: String,
    kind: String,
    metadata: Metadata,
    spec: Spec,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Metadata {
    name: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Spec {
    image: String,
    executor: String,
    replicas: u32,
    components: Vec<String>,
    #[serde(default)]
    checks: BTreeMap<String, Check>,
    resources: Resources,
    runtime_config: Option<RuntimeConfig>,
    variables: Vec<Variable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[expect(dead_code, reason = "unknown fields are refused, so every known field is listed")]
struct Check {
    http_get: HttpGet,
    #[serde(default)]
    initial_delay_seconds: u32,
    #[serde(default)]
    period_seconds: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HttpGet {
    path: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Resources {
    requests: BTreeMap<String, String>,
    limits: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RuntimeConfig {
    key_value_stores: Vec<Store>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Store {
    name: String,
    r#type: String,
    options: Vec<Variable>,
}

/// A name and the source of its value: a variable of the app, or an option of a store.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Variable {
    name: String,
    value_from: ValueFrom,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ValueFrom {
    secret_key_ref: SecretKey,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SecretKey {
    name: String,
    key: String,
    #[serde(default)]
    optional: bool,
}

/// Parses the kit's three documents: the HTTP app, the order writer and the cron job.
fn documents() -> [Value; 3] {
    let path = root::find().expect("the project").join("deploy/spinkube/stampede.yaml");
    let text = fs::read_to_string(path).expect("resources");
    let documents = serde_yaml_ng::Deserializer::from_str(&text).map(|it| Value::deserialize(it).expect("YAML"));
    documents.collect::<Vec<_>>().try_into().expect("three documents")
}

fn parse<T: DeserializeOwned>(document: &Value) -> T {
    serde_json::from_value(document.clone()).unwrap_or_else(|error| panic!("{error}: {document:#}"))
}

#[test]
fn both_apps_have_only_known_fields_and_run_the_components_of_the_manifest() {
    let root = root::find().expect("the project");
    let manifest = Manifest::read_file(&production_manifest(&root)).expect("a manifest");
    let [http, writer, _] = documents();
    let (http, writer): (SpinApp, SpinApp) = (parse(&http), parse(&writer));
    for app in [&http, &writer] {
        assert_eq!((app.api_version.as_str(), app.kind.as_str()), ("core.spinkube.dev/v1alpha1", "SpinApp"));
        assert_eq!(app.spec.executor, "containerd-shim-spin");
        assert!(
            app.spec.replicas > 0 && !app.spec.resources.requests.is_empty() && !app.spec.resources.limits.is_empty()
        );
    }
    assert_eq!(http.spec.image, writer.spec.image);
    assert_ne!(http.metadata.name, writer.metadata.name);
    assert_eq!(http.spec.components, manifest.components_for("http"));
    assert_eq!(writer.spec.components, manifest.components_for("redis"));

    let checks: Vec<_> =
        http.spec.checks.iter().map(|(kind, check)| (kind.as_str(), check.http_get.path.as_str())).collect();
    assert_eq!(checks, [("liveness", "/.well-known/spin/health"), ("readiness", "/healthz")]);
    assert!(writer.spec.checks.is_empty(), "the Redis-triggered application has HTTP health checks");
    let stores = &http.spec.runtime_config.as_ref().expect("stores").key_value_stores;
    let [store] = &stores[..] else { panic!("{stores:?}") };
    assert_eq!(
        (store.name.as_str(), store.r#type.as_str(), store.options[0].name.as_str()),
        ("default", "redis", "url")
    );
}

#[test]
fn both_apps_get_every_variable_from_the_secret_and_require_those_without_a_default() {
    let declared: toml::Table = fs::read_to_string(production_manifest(&root::find().expect("the project")))
        .expect("a manifest")
        .parse()
        .expect("TOML");
    let declared = declared["variables"].as_table().expect("variables");
    let [http, writer, job] = documents();
    for app in [parse::<SpinApp>(&http), parse::<SpinApp>(&writer)] {
        let names: Vec<&String> = app.spec.variables.iter().map(|variable| &variable.name).collect();
        assert_eq!(names, declared.keys().collect::<Vec<_>>());
        for Variable { name, value_from } in &app.spec.variables {
            let SecretKey { name: secret, key, optional } = &value_from.secret_key_ref;
            assert_eq!((secret.as_str(), key), ("stampede", &format!("SPIN_VARIABLE_{}", name.to_ascii_uppercase())));
            // The default ledger, SQLite, would be a separate file in each pod.
            let needed = declared[name].get("required").is_some() || name.starts_with("ledger");
            assert_eq!(*optional, !needed, "{name}");
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
    assert_eq!(
        (container["env"][1]["value"].as_str(), &container["command"]),
        (Some("5"), &serde_json::json!(["sh", "-c"]))
    );
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
