//! The files of `deploy/monitoring`, for Prometheus and Grafana (G20).

use std::{collections::BTreeSet, fs, path::PathBuf, process::Command};

use dev::root;
use serde_json::Value;

fn project() -> PathBuf {
    root::find().expect("the project")
}

fn read(file: &str) -> String {
    fs::read_to_string(project().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn promtool(args: &[&str]) {
    let mut promtool = Command::new("promtool");
    let output = promtool.args(args).current_dir(project().join("deploy/monitoring")).output().expect("promtool");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {said}");
}

#[test]
fn each_alert_fires_and_does_not_before_its_limit() {
    promtool(&["check", "config", "--syntax-only", "scrape.yml"]);
    promtool(&["check", "rules", "--lint-fatal", "alert-rules.yml"]);
    promtool(&["test", "rules", "alert-rules.test.yml"]);
    let tests = read("deploy/monitoring/alert-rules.test.yml");
    for alert in alerts() {
        let cases: Vec<_> = tests.split("alertname: ").filter(|case| starts_with_word(case, &alert)).collect();
        let fires = cases.iter().any(|case| case.split("alertname").next().is_some_and(|it| it.contains("exp_alerts")));
        assert!(fires && cases.len() > 1, "alert-rules.test.yml: {alert} fires in no case, or always");
    }
}

fn starts_with_word(text: &str, word: &str) -> bool {
    text.strip_prefix(word).is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric()))
}

fn alerts() -> BTreeSet<String> {
    let rules = read("deploy/monitoring/alert-rules.yml");
    rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ").map(str::to_owned)).collect()
}

#[test]
fn each_alert_has_a_section_of_the_runbook() {
    let (rules, runbook) = (read("deploy/monitoring/alert-rules.yml"), read("docs/runbook.md"));
    let sections = runbook.lines().filter_map(|line| line.strip_prefix("## "));
    let sections: BTreeSet<_> = sections.filter(|name| name.starts_with("Stampede")).map(str::to_owned).collect();
    assert_eq!(alerts(), sections);
    for alert in alerts() {
        let anchor = format!("runbook_url: docs/runbook.md#{}\n", alert.to_lowercase());
        assert!(rules.contains(&anchor), "{alert} leads elsewhere");
    }
}

#[test]
fn the_runbook_names_units_and_resources_of_the_kits() {
    let runbook = read("docs/runbook.md");
    let resources = read("deploy/spinkube/stampede.yaml");
    let mut found = 0;
    for command in runbook.split('`').skip(1).step_by(2) {
        let words: Vec<_> = command.split(' ').collect();
        for unit in words.iter().filter(|_| ["systemctl", "journalctl"].contains(&words[0])) {
            if unit.starts_with("stampede") {
                let file = if unit.contains('.') { (*unit).to_owned() } else { format!("{unit}.service") };
                assert!(project().join("deploy/self-hosted/systemd").join(&file).exists(), "{command}: no {file}");
                found += 1;
            }
        }
        if let ["kubectl", "get", kind, name] = words[..] {
            let has_it = |document: &str| {
                let is_kind = document.lines().any(|line| line.to_lowercase() == format!("kind: {kind}"));
                is_kind && document.contains(&format!("  name: {name}\n"))
            };
            assert!(resources.split("---").any(has_it), "{command}: stampede.yaml has none");
            found += 1;
        }
    }
    assert!(found > 6, "{found} names");
}

/// The words of a text that name metrics of the app.
fn metrics(text: &str) -> BTreeSet<&str> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let is_metric = |word: &&str| word.starts_with("stampede_") || word.starts_with("http_server_");
    words.filter(is_metric).map(|word| word.strip_suffix("_bucket").unwrap_or(word)).collect()
}

#[test]
fn rules_panels_and_the_runbook_name_metrics_that_exist() {
    let source = read("crates/operations/src/commands/metrics.rs");
    let known = metrics(&source);
    let dashboard: Value = serde_json::from_str(&read("deploy/monitoring/dashboard.json")).expect("JSON");
    assert!(dashboard["panels"].as_array().is_some_and(|panels| panels.len() > 10));
    for file in ["deploy/monitoring/alert-rules.yml", "deploy/monitoring/dashboard.json"] {
        let text = read(file);
        let unknown: Vec<_> = metrics(&text).into_iter().filter(|metric| !known.contains(metric)).collect();
        assert!(unknown.is_empty(), "{file}: no metric is named {unknown:?}");
    }
    // The runbook greps for beginnings of names.
    let runbook = read("docs/runbook.md");
    for metric in metrics(&runbook) {
        assert!(known.iter().any(|known| known.starts_with(metric)), "docs/runbook.md: no metric is named {metric}");
    }
}
