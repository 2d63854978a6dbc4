//! The table of variables in `docs/configuration.md`, from `spin.toml`.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use toml::{Table, Value};

const MANIFEST: &str = include_str!("../../../spin.toml");
const DOCUMENT: &str = include_str!("../../../docs/configuration.md");
/// The table follows this line.
const HEADER: &str = "| variable | default | used by | meaning |\n|---|---|---|---|\n";

/// The document: what is written by hand, then the table.
pub fn text() -> Result<String> {
    let by_hand = DOCUMENT.split(HEADER).next().unwrap_or_default();
    let manifest: Table = toml::from_str(MANIFEST).context("spin.toml is no TOML")?;
    let mut text = format!("{by_hand}{HEADER}");
    for (name, variable) in manifest.get("variables").and_then(Value::as_table).into_iter().flatten() {
        let meaning = variable.get("description").and_then(Value::as_str).unwrap_or_default();
        let (default, users) = (default(variable), users(&manifest, name).join(", "));
        let _ = writeln!(text, "| `{name}` | {default} | {users} | {meaning} |");
    }
    Ok(text)
}

fn default(variable: &Value) -> String {
    let default = match variable.get("default").and_then(Value::as_str) {
        None => "required".to_owned(),
        Some("") => "empty".to_owned(),
        Some(default) => format!("`{default}`"),
    };
    let is_secret = variable.get("secret").and_then(Value::as_bool).unwrap_or_default();
    if is_secret { format!("{default}; secret") } else { default }
}

/// The components that get the variable, or whose allow-list has it, and the Redis trigger, if its address is.
fn users<'a>(manifest: &'a Table, name: &str) -> Vec<&'a str> {
    let components = manifest.get("component").and_then(Value::as_table).into_iter().flatten();
    let reference = format!("{{{{ {name} }}}}");
    let users = components.filter(|(_, component)| component.to_string().contains(&reference));
    let trigger = manifest.get("application").filter(|application| application.to_string().contains(&reference));
    users.map(|(id, _)| id.as_str()).chain(trigger.map(|_| "the Redis trigger")).collect()
}
