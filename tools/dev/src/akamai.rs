//! Generates the app's manifest for Akamai Functions from `spin.toml`.
//!
//! That platform has HTTP triggers only and no SQLite; the ledger is PostgreSQL.

use anyhow::{Context, Result};
use toml::{Table, Value};

/// Name of the generated manifest. It is written beside `spin.toml`, because an engine only accepts files below its
/// manifest.
pub const MANIFEST_FILE: &str = "spin.akamai.toml";

const HEADER: &str = "# Made from spin.toml by deploy/akamai/manifest: change that one.\n";
/// Variables of the ledger: required on the platform, because their defaults select SQLite.
const LEDGER_VARIABLES: [&str; 2] = ["ledger", "ledger_host"];

/// Generates the manifest from the text of `spin.toml`.
pub fn manifest(spin_toml: &str) -> Result<String> {
    let mut manifest: Table = spin_toml.parse().context("spin.toml is no TOML")?;
    table(&mut manifest, "application")?.remove("trigger");
    let triggers = table(&mut manifest, "trigger")?;
    triggers.retain(|kind, _| kind == "http");
    let called: Vec<Value> =
        triggers.values().filter_map(Value::as_array).flatten().filter_map(|it| it.get("component").cloned()).collect();
    let components = table(&mut manifest, "component")?;
    components.retain(|id, _| called.iter().any(|called| called.as_str() == Some(id)));
    for (_, component) in components.iter_mut() {
        component.as_table_mut().context("a component is no table")?.remove("sqlite_databases");
    }
    let variables = table(&mut manifest, "variables")?;
    for name in LEDGER_VARIABLES {
        let variable = table(variables, name)?;
        variable.remove("default");
        variable.insert("required".to_owned(), true.into());
    }
    Ok(format!("{HEADER}{}", toml::to_string(&manifest)?))
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
        assert_eq!(generated["trigger"]["http"], original["trigger"]["http"]);
        assert!(generated["application"].get("trigger").is_none());
        assert_eq!(generated["application"]["name"], original["application"]["name"]);

        let components = original["component"].as_table_mut().expect("components");
        assert!(components.remove("order-writer").is_some());
        let with_sqlite = components.iter_mut().filter_map(|(_, it)| it.as_table_mut()?.remove("sqlite_databases"));
        assert!(with_sqlite.count() > 3, "the app's own manifest has no SQLite to leave out");
        assert_eq!(generated["component"], original["component"]);

        for (name, variable) in generated["variables"].as_table().expect("variables") {
            if LEDGER_VARIABLES.contains(&name.as_str()) {
                assert!(variable.get("default").is_none() && variable["required"] == Value::Boolean(true), "{name}");
            } else {
                assert_eq!(Some(variable), original["variables"].get(name), "{name}");
            }
        }
        assert_eq!(generated["variables"].as_table().map(Table::len), original["variables"].as_table().map(Table::len));
    }
}
