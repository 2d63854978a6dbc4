//! Structured logs: one JSON object per line on standard error. Never log secrets or personal data.

use std::io::Write as _;

use serde_json::{Value, json};

/// Writes one line with the time, a level, an event and fields such as `order_no` and `request_id`.
pub fn write(level: &str, event: &str, fields: &[(&str, Value)]) {
    let mut object = json!({ "time": crate::clock::now().to_string(), "level": level, "event": event });
    for (name, value) in fields {
        object[*name] = value.clone();
    }
    // One write per line: smaller writes would interleave with the lines of other requests.
    let _ = std::io::stderr().write_all(format!("{object}\n").as_bytes());
}

/// Logs a failure that an operator should know.
pub fn error(event: &str, fields: &[(&str, Value)]) {
    write("error", event, fields);
}

/// Logs an operator's action or other useful information.
pub fn info(event: &str, fields: &[(&str, Value)]) {
    write("info", event, fields);
}
