//! JSON bodies: parsed into types, or refused with a pointer to what is wrong.

use serde::de::DeserializeOwned;
use serde_path_to_error::{Path, Segment};

use crate::problem::{FieldError, Problem};

/// Parses a body. Unknown fields are ignored; wrong types are refused with a JSON pointer.
///
/// # Errors
/// `invalid_request`, with the pointer where there is one.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // A list is read as a type's fields in their order, by serde, and by nobody who writes JSON.
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        return Err(Problem::invalid(vec![FieldError::new("", "must be an object")]));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let detail = without_position(&error.inner().to_string());
        Problem::invalid(vec![FieldError::new(pointer(error.path()), detail)])
    })?;
    deserializer
        .end()
        .map_err(|_| Problem::invalid(vec![FieldError::new("", "there is text after the JSON value")]))?;
    Ok(value)
}

/// RFC 6901 for a path of serde.
fn pointer(path: &Path) -> String {
    path.iter()
        .map(|segment| match segment {
            Segment::Seq { index } => format!("/{index}"),
            Segment::Map { key } => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
            Segment::Enum { variant } => format!("/{variant}"),
            Segment::Unknown => String::new(),
        })
        .collect()
}

/// serde_json's words without its line and column.
fn without_position(text: &str) -> String {
    text.split(" at line ").next().unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[allow(dead_code)]
    struct Order {
        sku: String,
        quantity: i64,
    }

    #[test]
    fn a_wrong_type_is_pointed_at() {
        for (body, pointer) in [
            (r#"{"sku":"a","quantity":"1"}"#, "/quantity"),
            (r#"{"sku":"a","quantity":1.5}"#, "/quantity"),
            (r#"{"sku":"a","quantity":9223372036854775808}"#, "/quantity"),
            (r#"{"sku":7,"quantity":1}"#, "/sku"),
        ] {
            let problem = parse::<Order>(body.as_bytes()).expect_err(body);
            assert_eq!(problem.errors[0].pointer, pointer, "{body}");
        }
    }

    #[test]
    fn no_json_and_too_much_json_are_refused() {
        for body in ["", "{", "[]", r#" ["a",1]"#, "null", r#"{"sku":"a","quantity":1} x"#] {
            assert!(parse::<Order>(body.as_bytes()).is_err(), "{body:?} was accepted");
        }
        assert!(parse::<Order>(br#"{"sku":"a","quantity":1,"colour":"red"}"#).is_ok());
    }
}
