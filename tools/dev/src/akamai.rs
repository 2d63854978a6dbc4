//! Generates the app's manifest for Akamai Functions from `spin.toml`.
//!
//! That platform has HTTP triggers only and no SQLite; the ledger is PostgreSQL. The sandbox is left out.

use anyhow::{Context, Result};
use toml::{Table, Value};

/// Name of the generated manifest. It is written beside `spin.toml`, because an engine only accepts files below its
/// manifest.
pub const MANIFEST_FILE: &str = "spin.akamai.toml";

const HEADER: &str = "# Made from spin.toml by deploy/akamai/manifest: change that one.\n";
/// Variables that are required on the platform, because their defaults select SQLite and the sandbox.
const REQUIRED_VARIABLES: [&str; 3] = ["ledger", "ledger_host", "payment_provider"];
/// The component that only development needs, and the name of its variable.
const SANDBOX: &str = "sandbox";
/// The variable of the Redis trigger.
const DOORBELL_URL: &str = "doorbell_url";

/// Generates the manifest from the text of `spin.toml`.
pub fn manifest(spin_toml: &str) -> Result<String> {
    let mut manifest: Table = spin_toml.parse().context("spin.toml is no TOML")?;
    table(&mut manifest, "application")?.remove("trigger");
    let triggers = table(&mut manifest, "trigger")?;
    triggers.retain(|kind, _| kind == "http");
    for triggers in triggers.iter_mut().filter_map(|(_, triggers)| triggers.as_array_mut()) {
        triggers.retain(|it| it.get("component").and_then(Value::as_str) != Some(SANDBOX));
    }
    let called: Vec<Value> =
        triggers.values().filter_map(Value::as_array).flatten().filter_map(|it| it.get("component").cloned()).collect();
    let components = table(&mut manifest, "component")?;
    components.retain(|id, _| called.iter().any(|called| called.as_str() == Some(id)));
    for (_, component) in components.iter_mut() {
        let component = component.as_table_mut().context("a component is no table")?;
        component.remove("sqlite_databases");
        remove_sandbox(component);
    }
    let variables = table(&mut manifest, "variables")?;
    variables.remove(SANDBOX);
    variables.remove(DOORBELL_URL);
    for name in REQUIRED_VARIABLES {
        let variable = table(variables, name)?;
        variable.remove("default");
        variable.insert("required".to_owned(), true.into());
    }
    Ok(format!("{HEADER}{}", toml::to_string(&manifest)?))
}

/// Removes what a component has for the sandbox: its variable, and the host that the sweeper calls.
fn remove_sandbox(component: &mut Table) {
    if let Some(variables) = component.get_mut("variables").and_then(Value::as_table_mut) {
        variables.remove(SANDBOX);
    }
    if let Some(hosts) = component.get_mut("allowed_outbound_hosts").and_then(Value::as_array_mut) {
        hosts.retain(|host| !host.as_str().is_some_and(|host| host.contains("sandbox.spin.internal")));
    }
}

fn table<'a>(parent: &'a mut Table, name: &str) -> Result<&'a mut Table> {
    parent.get_mut(name).and_then(Value::as_table_mut).with_context(|| format!("spin.toml has no table {name}"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_manifest_differs_only_in_what_the_platform_lacks() {
        let text = fs::read_to_string(crate::root::find().expect("the project").join("spin.toml")).expect("a manifest");
        let generated: Table = manifest(&text).expect("a manifest").parse().expect("TOML");
        let mut original: Table = text.parse().expect("TOML");
        assert_eq!(generated["trigger"].as_table().expect("triggers").keys().collect::<Vec<_>>(), ["http"]);
        let mut routes = original["trigger"]["http"].as_array().expect("triggers").clone();
        routes.retain(|it| it["component"].as_str() != Some(SANDBOX));
        assert_eq!(generated["trigger"]["http"].as_array(), Some(&routes));
        assert!(!generated.to_string().contains("sandbox.spin.internal"), "the sandbox is left out");
        assert!(generated["application"].get("trigger").is_none());
        assert_eq!(generated["application"]["name"], original["application"]["name"]);

        let components = original["component"].as_table_mut().expect("components");
        assert!(components.remove("order-writer").is_some() && components.remove(SANDBOX).is_some());
        components.iter_mut().filter_map(|(_, it)| it.as_table_mut()).for_each(remove_sandbox);
        let with_sqlite = components.iter_mut().filter_map(|(_, it)| it.as_table_mut()?.remove("sqlite_databases"));
        assert!(with_sqlite.count() > 3, "the app's own manifest has no SQLite to leave out");
        assert_eq!(generated["component"], original["component"]);

        for (name, variable) in generated["variables"].as_table().expect("variables") {
            if REQUIRED_VARIABLES.contains(&name.as_str()) {
                assert!(variable.get("default").is_none() && variable["required"] == Value::Boolean(true), "{name}");
            } else {
                assert_eq!(Some(variable), original["variables"].get(name), "{name}");
            }
        }
        let names = |manifest: &Table| manifest["variables"].as_table().expect("variables").keys().cloned().collect();
        let (kept, mut all): (Vec<String>, Vec<String>) = (names(&generated), names(&original));
        all.retain(|name| name != SANDBOX && name != DOORBELL_URL);
        assert_eq!(kept, all);
    }
}
