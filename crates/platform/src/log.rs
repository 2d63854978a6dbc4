//! Structured logs: one JSON object a line on standard error. No secret and no personal data.

use std::io::Write as _;

use serde_json::{Value, json};

/// Writes one line: a level, what happened, and fields such as `order_no` and `request_id`.
pub fn write(level: &str, event: &str, fields: &[(&str, Value)]) {
    let mut object = json!({ "time": crate::clock::now().to_string(), "level": level, "event": event });
    for (name, value) in fields {
        object[*name] = value.clone();
    }
    // In one piece: what is written piecewise mixes with the lines of other requests.
    let _ = std::io::stderr().write_all(format!("{object}\n").as_bytes());
}

/// Something that should not happen.
pub fn error(event: &str, fields: &[(&str, Value)]) {
    write("error", event, fields);
}

/// Something an operator did, or may want to know.
pub fn info(event: &str, fields: &[(&str, Value)]) {
    write("info", event, fields);
}
