//! Parses JSON request bodies; errors point at the wrong members.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeOwned, MapAccess, Unexpected, Visitor, value::MapAccessDeserializer},
};
use serde_json::{Value, json};
use serde_path_to_error::{Path, Segment, Track};

use crate::{
    http::problem::{FieldError, MAX_ERRORS, Problem},
    time::Millis,
};

/// Most bytes that are read again to find all errors of a body that any client can send.
const MAX_EXPLAINED_BYTES: usize = 32 * 1024;

/// Parses a JSON object. Unknown members are ignored.
///
/// # Errors
/// [`Code::InvalidRequest`](crate::http::problem::Code::InvalidRequest), with a JSON pointer to each wrong member.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    require_object(bytes)?;
    serde_json::from_slice(bytes).map_err(|_| {
        let most_tries = MAX_EXPLAINED_BYTES / bytes.len().max(1);
        Problem::invalid(find_errors::<T>(bytes, most_tries, None).0)
    })
}

/// Parses the JSON object of an operator. Unknown members are errors, and so is what `validate` returns.
///
/// # Errors
/// As [`parse`].
pub fn parse_strict<T: DeserializeOwned>(
    bytes: &[u8],
    validate: impl FnOnce(&T) -> Vec<FieldError>,
) -> Result<T, Problem> {
    require_object(bytes)?;
    let mut unknown = Vec::new();
    let (mut errors, parsed) = find_errors(bytes, usize::MAX, Some(&mut unknown));
    errors.append(&mut unknown);
    if let Some(value) = &parsed {
        // What replaces a wrong member is not valid either.
        let is_told = |pointer: &str| errors.iter().any(|told| is_within(pointer, &told.pointer));
        let invalid: Vec<_> = validate(value).into_iter().filter(|error| !is_told(&error.pointer)).collect();
        errors.extend(invalid);
    }
    match parsed {
        Some(value) if errors.is_empty() => Ok(value),
        _ => Err(Problem::invalid(errors)),
    }
}

/// Serde also reads a struct from an array, by the order of its fields; the API accepts objects only. Its error for a text
/// would quote the text.
fn require_object(bytes: &[u8]) -> Result<(), Problem> {
    match bytes.trim_ascii_start().first() {
        Some(b'[' | b'"') => Err(Problem::invalid(vec![FieldError::new("", "must be an object")])),
        _ => Ok(()),
    }
}

/// What a wrong member is replaced with, so that the members after it are read, too: something of each type.
fn placeholders() -> [Value; 6] {
    [json!("placeholder"), json!(Millis(0)), json!(1), json!(false), json!({}), json!([])]
}

/// Returns an error for each wrong member. Serde ends at the first one: it is replaced, and the body read again, up to
/// `most_tries` times. Also returns the value, with replaced members, if they made the body readable; `unknown` gets an error
/// for each member that it does not have.
fn find_errors<T: DeserializeOwned>(
    bytes: &[u8],
    most_tries: usize,
    mut unknown: Option<&mut Vec<FieldError>>,
) -> (Vec<FieldError>, Option<T>) {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let mut error = match read(&mut deserializer, unknown.as_deref_mut()) {
        Ok(value) if deserializer.end().is_ok() => return (Vec::new(), Some(value)),
        Ok(_) => return (vec![FieldError::new("", "there is text after the JSON value")], None),
        Err(error) => error,
    };
    let Ok(mut body) = serde_json::from_slice::<Value>(bytes) else { return (vec![error], None) };
    let mut errors = vec![error.clone()];
    for _ in 0..most_tries {
        let pointer = error.pointer;
        let placeholder = placeholders().into_iter().find(|placeholder| {
            place(&mut body, &pointer, placeholder.clone());
            read::<T, _>(&body, None).err().is_none_or(|next| next.pointer != pointer)
        });
        if placeholder.is_none() {
            remove(&mut body, &pointer);
        }
        if let Some(unknown) = &mut unknown {
            unknown.clear();
        }
        error = match read(&body, unknown.as_deref_mut()) {
            Ok(value) => return (errors, Some(value)),
            Err(next) if errors.len() == MAX_ERRORS || (placeholder.is_none() && next.pointer == pointer) => break,
            Err(next) => next,
        };
        if !errors.iter().any(|told| is_within(&error.pointer, &told.pointer)) {
            errors.push(error.clone());
        }
    }
    (errors, None)
}

/// Reads a value; the error is that of the first wrong member. `unknown` gets an error for each unknown one.
fn read<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
    mut unknown: Option<&mut Vec<FieldError>>,
) -> Result<T, FieldError> {
    let mut track = Track::new();
    let tracked = serde_path_to_error::Deserializer::new(deserializer, &mut track);
    let parsed = serde_ignored::deserialize(tracked, |path| {
        if let Some(unknown) = &mut unknown {
            unknown.push(FieldError::new(ignored_pointer(&path), "is not a member of this body"));
        }
    });
    parsed.map_err(|error: D::Error| {
        let (pointer, text) = (pointer(&track.path()), error.to_string());
        match text.strip_prefix("missing field `").and_then(|rest| rest.split('`').next()) {
            Some(name) => FieldError::new(format!("{pointer}/{name}"), "is missing"),
            None => FieldError::new(pointer, error_detail(&text)),
        }
    })
}

/// Whether a pointer is to the value at `outer`, or into it.
fn is_within(pointer: &str, outer: &str) -> bool {
    pointer.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Sets the value at a pointer, or adds the member.
fn place(body: &mut Value, pointer: &str, value: Value) {
    if let Some(slot) = body.pointer_mut(pointer) {
        *slot = value;
    } else if let Some((outer, name)) = pointer.rsplit_once('/')
        && let Some(Value::Object(members)) = body.pointer_mut(outer)
    {
        members.insert(name.to_owned(), value);
    }
}

/// Removes the member at a pointer.
fn remove(body: &mut Value, pointer: &str) {
    if let Some((outer, name)) = pointer.rsplit_once('/')
        && let Some(Value::Object(members)) = body.pointer_mut(outer)
    {
        members.remove(&name.replace("~1", "/").replace("~0", "~"));
    }
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
            Segment::Map { key } => format!("/{}", escape(key)),
            Segment::Enum { variant } => format!("/{variant}"),
            Segment::Unknown => String::new(),
        })
        .collect()
}

fn ignored_pointer(path: &serde_ignored::Path<'_>) -> String {
    use serde_ignored::Path::{Map, NewtypeStruct, NewtypeVariant, Root, Seq, Some};
    match path {
        Root => String::new(),
        Seq { parent, index } => format!("{}/{index}", ignored_pointer(parent)),
        Map { parent, key } => format!("{}/{}", ignored_pointer(parent), escape(key)),
        Some { parent } | NewtypeStruct { parent } | NewtypeVariant { parent } => ignored_pointer(parent),
    }
}

fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
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
            ("{}", "/sku: is missing"),
            ("{} x", "/sku: is missing"),
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
    fn all_wrong_members_are_named_at_once() {
        let pointers = |body: &str| -> Vec<String> {
            let problem = parse::<Order>(body.as_bytes()).expect_err(body);
            problem.errors.into_iter().map(|error| error.pointer).collect()
        };
        assert_eq!(pointers("{}"), ["/sku", "/quantity"]);
        assert_eq!(pointers(r#"{"quantity":[],"sku":{"a":1}}"#), ["/quantity", "/sku"]);
        // A body that any client can send is read again a few times only.
        assert_eq!(pointers(&format!(r#"{{"quantity":[],"sku":{{}},"x":"{}"}}"#, "x".repeat(33_000))), ["/quantity"]);
    }

    #[test]
    fn an_operators_body_has_no_unknown_members() {
        #[derive(Debug, Deserialize)]
        struct Orders {
            #[serde(deserialize_with = "objects")]
            orders: Vec<Order>,
            #[serde(default)]
            #[allow(dead_code)]
            kind: Option<Kind>,
        }
        #[derive(Debug, Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum Kind {
            Draft,
        }
        let validate = |orders: &Orders| {
            let wrong = orders.orders.iter().enumerate().filter(|(_, order)| order.quantity < 5);
            wrong.map(|(index, _)| FieldError::new(format!("/orders/{index}/quantity"), "is too low")).collect()
        };
        let pointers = |body: &str| -> Vec<String> {
            let errors = parse_strict(body.as_bytes(), validate).map_or_else(|problem| problem.errors, |_| Vec::new());
            errors.into_iter().map(|error| error.pointer).collect()
        };
        assert_eq!(pointers(r#"{"orders":[{"sku":"a","quantity":5}],"kind":"draft"}"#), [""; 0]);
        assert_eq!(
            pointers(r#"{"a/b":1,"kind":"x","orders":[{"sku":"a","size":1,"quantity":1},"x",{"sku":1},{}]}"#),
            [
                "/kind",
                "/orders/1",
                "/orders/2/sku",
                "/orders/2/quantity",
                "/orders/3/sku",
                "/orders/3/quantity",
                "/a~1b",
                "/orders/0/size",
                "/orders/0/quantity",
            ]
        );
        for (body, detail) in [
            (r#"{"orders":[],"orders":[]}"#, "The body is not valid: duplicate field `orders`."),
            (r#"{"orders":[],"order":1}"#, "/order: is not a member of this body"),
            (r#"{"orders":"#, "/orders: EOF while parsing a value"),
        ] {
            assert_eq!(parse_strict(body.as_bytes(), validate).expect_err(body).detail, detail);
        }
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
