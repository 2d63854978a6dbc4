//! Parses JSON request bodies; errors point at the wrong member.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeOwned, MapAccess, Unexpected, Visitor, value::MapAccessDeserializer},
};
use serde_path_to_error::{Path, Segment};

use crate::http::problem::{FieldError, Problem};

/// Parses a JSON object. Unknown members are ignored.
///
/// # Errors
/// [`Code::InvalidRequest`](crate::http::problem::Code::InvalidRequest), with a JSON pointer to the member if there is one.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // Serde also reads a struct from an array, by the order of its fields; the API accepts objects only. Its error for a
    // text would quote the text.
    if let Some(b'[' | b'"') = bytes.trim_ascii_start().first() {
        return Err(Problem::invalid(vec![FieldError::new("", "must be an object")]));
    }
    serde_json::from_slice(bytes).map_err(|_| explain::<T>(bytes))
}

/// Parses a body that is not valid again, to find out which member is wrong: keeping track of the path costs time.
fn explain<T: DeserializeOwned>(bytes: &[u8]) -> Problem {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let error = match serde_path_to_error::deserialize::<_, T>(&mut deserializer) {
        Ok(_) => FieldError::new("", "there is text after the JSON value"),
        Err(error) => FieldError::new(pointer(error.path()), error_detail(&error.inner().to_string())),
    };
    Problem::invalid(vec![error])
}

/// A member that must be a JSON object.
///
/// Serde also reads a struct from an array; like [`parse`], this refuses arrays.
#[derive(Debug, Clone)]
pub struct JsonObject<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for JsonObject<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = T;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(members))
            }
        }
        deserializer.deserialize_map(ObjectVisitor(PhantomData)).map(Self)
    }
}

/// Deserialises a [`JsonObject`] and unwraps it; for `deserialize_with`.
pub(crate) fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    JsonObject::deserialize(deserializer).map(|JsonObject(value)| value)
}

/// Like [`object`], for a list of objects.
pub(crate) fn objects<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let objects = Vec::<JsonObject<T>>::deserialize(deserializer)?;
    Ok(objects.into_iter().map(|JsonObject(value)| value).collect())
}

/// Deserialises a whole number; for `deserialize_with`. Serde's own error for a text quotes the text with escapes, which takes
/// ten times as long as to verify a ticket, and any client can send one.
pub(crate) fn whole_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    struct WholeNumber;
    impl Visitor<'_> for WholeNumber {
        type Value = i64;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a whole number")
        }
        fn visit_i64<E: de::Error>(self, number: i64) -> Result<i64, E> {
            Ok(number)
        }
        fn visit_u64<E: de::Error>(self, number: u64) -> Result<i64, E> {
            i64::try_from(number).map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
        }
        fn visit_str<E: de::Error>(self, _: &str) -> Result<i64, E> {
            Err(E::invalid_type(Unexpected::Other("text"), &self))
        }
    }
    deserializer.deserialize_any(WholeNumber)
}

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

/// serde_json's message without line and column, and without the names of Rust types.
fn error_detail(text: &str) -> String {
    let text = text.split(" at line ").next().unwrap_or(text);
    match text.rsplit_once("expected ") {
        Some((found, "i64" | "u8")) => format!("{found}expected a whole number"),
        Some((found, wanted)) if wanted.starts_with("struct ") => format!("{found}expected an object"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[allow(dead_code)]
    struct Order {
        sku: String,
        #[serde(deserialize_with = "whole_number")]
        quantity: i64,
    }

    #[test]
    fn error_details_do_not_name_rust_types() {
        for (body, detail) in [
            ("7", "The body is not valid: invalid type: integer `7`, expected an object."),
            ("[]", "The body is not valid: must be an object."),
            ("{}", "The body is not valid: missing field `sku`."),
            ("{} x", "The body is not valid: missing field `sku`."),
            (r#"{"sku":"a","quantity":"1"}"#, r#"/quantity: invalid type: text, expected a whole number"#),
            (r#""{}""#, "The body is not valid: must be an object."),
            (r#"{"sku":"a","quantity":1} x"#, "The body is not valid: there is text after the JSON value."),
        ] {
            assert_eq!(parse::<Order>(body.as_bytes()).expect_err(body).detail, detail);
        }
        let problem = parse::<Vec<Order>>(b" {}").expect_err("an object");
        assert_eq!(problem.detail, "The body is not valid: invalid type: map, expected a sequence.");
    }

    #[test]
    fn an_error_is_shorter_than_the_body_that_it_quotes() {
        let long = "\u{7f}".repeat(16_000);
        let quoted = parse::<Order>(format!(r#"{{"sku":"a","quantity":"{long}"}}"#).as_bytes()).map(|_| ());
        let pointed = parse::<BTreeMap<String, i64>>(format!(r#"{{"{long}":""}}"#).as_bytes()).map(|_| ());
        for problem in [quoted, pointed] {
            let json = problem.expect_err("wrong").to_json();
            assert!(json.len() < 6_000, "{} bytes", json.len());
        }
    }
}
