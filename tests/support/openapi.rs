//! Checks responses, and messages to the shop, against `static/openapi.json` (G11).
//!
//! A response has a documented status, content type and body, and the headers that the document requires. Objects have
//! no undocumented members.

use std::{
    collections::HashMap,
    fs,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use jsonschema::Validator;
use serde_json::{Map, Value, json};

use super::Response;

/// The pages, files and sandbox that the document does not have: exact paths, and what is below those that end in `/`.
const OUTSIDE: [&str; 10] =
    ["/", "/sandbox/", "/client/", "/demo/", "/openapi.json", "/order", "/orders", "/robots.txt", "/sale", "/sign-in"];

/// An OpenAPI document with the validators of its schemas.
pub struct OpenApi {
    document: Value,
    validators: Mutex<HashMap<String, Arc<Validator>>>,
}

impl OpenApi {
    /// The document of the app.
    pub fn of_app() -> &'static Self {
        static DOCUMENT: OnceLock<OpenApi> = OnceLock::new();
        DOCUMENT.get_or_init(|| {
            let text = fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../static/openapi.json")).expect("the document");
            Self::new(serde_json::from_slice(&text).expect("JSON"))
        })
    }

    /// Reads a document.
    pub fn new(mut document: Value) -> Self {
        close_objects(&mut document);
        Self { document, validators: Mutex::default() }
    }

    /// Checks a response.
    ///
    /// # Errors
    /// What differs from the document: the route, the status, and the JSON pointer in the body or the header's name.
    pub fn check(&self, response: &Response) -> Result<(), String> {
        let (method, target) = response.request.split_once(' ').unwrap_or_default();
        let path = target.split(['?', '#']).next().unwrap_or_default();
        let status = response.status;
        let found = self.members("/paths").iter().find(|(template, _)| is_match(template, path));
        let Some((template, operations)) = found else {
            let is_below = |folder: &str| folder.len() > 1 && folder.ends_with('/') && path.starts_with(folder);
            if matches!(status, 404 | 405) || OUTSIDE.iter().any(|known| path == *known || is_below(known)) {
                return Ok(());
            }
            return Err(format!("{method} {path} is not in the document, and answers {status}"));
        };
        let label = format!("{method} {template}: {status}");
        let operation = if method == "HEAD" { "get".to_owned() } else { method.to_lowercase() };
        let pointer = match operations.get(&operation) {
            Some(_) => format!("/paths/{}/{operation}/responses/{status}", escape(template)),
            // A preflight (G13).
            None if method == "OPTIONS" && status == 204 => return Ok(()),
            // Operators' routes ask for the token first.
            None if status == 401 && template.starts_with("/api/admin/") => return Ok(()),
            None if status == 405 => "/components/responses/MethodNotAllowed".to_owned(),
            None => return Err(format!("{label}: the document does not have this method")),
        };
        let (pointer, documented) = self.resolve(pointer);
        if documented.is_null() {
            return Err(format!("{label} is not in the document: {}", response.body));
        }
        self.check_headers(&pointer, response).map_err(|error| format!("{label}: {error}"))?;
        if method == "HEAD" {
            return Ok(());
        }
        self.check_content(&pointer, response).map_err(|error| format!("{label}: {error}"))
    }

    /// Parses a message to the shop: an event, or a call of its payment service.
    ///
    /// # Panics
    /// If it differs from the document.
    pub fn parse_message(&self, body: &str) -> Value {
        let message: Value = serde_json::from_str(body).expect("JSON");
        let kind = escape(message["type"].as_str().unwrap_or_default());
        let pointer = format!("/webhooks/{kind}/post/requestBody/content/application~1json/schema");
        self.validate(&pointer, &message).unwrap_or_else(|error| panic!("{error}: {body}"));
        message
    }

    fn check_headers(&self, response_pointer: &str, response: &Response) -> Result<(), String> {
        let pointer = format!("{response_pointer}/headers");
        for name in self.members(&pointer).keys() {
            let (pointer, header) = self.resolve(format!("{pointer}/{name}"));
            let Some(value) = response.headers.get(name) else {
                if header["required"] == true {
                    return Err(format!("no {name}"));
                }
                continue;
            };
            let value = String::from_utf8_lossy(value.as_bytes());
            let value = match header["schema"]["type"].as_str() {
                Some("integer") => value.parse::<i64>().map_or_else(|_| json!(value), |number| json!(number)),
                _ => json!(value),
            };
            self.validate(&format!("{pointer}/schema"), &value).map_err(|error| format!("{name}: {error}"))?;
        }
        Ok(())
    }

    fn check_content(&self, response_pointer: &str, response: &Response) -> Result<(), String> {
        let contents = self.members(&format!("{response_pointer}/content"));
        if contents.is_empty() {
            return if response.body.is_empty() {
                Ok(())
            } else {
                Err(format!("no body is documented: {}", response.body))
            };
        }
        let media = response.header("content-type").split(';').next().unwrap_or_default();
        if !contents.contains_key(media) {
            return Err(format!("the type {media:?} is not documented"));
        }
        let body = match media.ends_with("json") {
            true => serde_json::from_str(&response.body).map_err(|error| format!("no JSON: {error}"))?,
            false => json!(response.body),
        };
        self.validate(&format!("{response_pointer}/content/{}/schema", escape(media)), &body)
    }

    fn validate(&self, pointer: &str, instance: &Value) -> Result<(), String> {
        let mut validators = self.validators.lock().unwrap_or_else(PoisonError::into_inner);
        let validator =
            Arc::clone(validators.entry(pointer.to_owned()).or_insert_with(|| self.build_validator(pointer)));
        drop(validators);
        let errors: Vec<_> = validator
            .iter_errors(instance)
            .map(|error| format!("at {:?}: {error}", error.instance_path().as_str()))
            .collect();
        if errors.is_empty() { Ok(()) } else { Err(errors.join("; ")) }
    }

    fn build_validator(&self, pointer: &str) -> Arc<Validator> {
        let schema = self.document.pointer(pointer).unwrap_or(&Value::Bool(false));
        let schema = json!({ "allOf": [schema], "components": self.document["components"] });
        Arc::new(jsonschema::options().should_validate_formats(true).build(&schema).expect("a schema"))
    }

    /// Follows a `$ref`. Returns the pointer and the node that it refers to; null if there is none.
    fn resolve(&self, pointer: String) -> (String, &Value) {
        let node = self.document.pointer(&pointer).unwrap_or(&Value::Null);
        match node["$ref"].as_str().and_then(|reference| reference.strip_prefix('#')) {
            Some(target) => self.resolve(target.to_owned()),
            None => (pointer, node),
        }
    }

    fn members(&self, pointer: &str) -> &Map<String, Value> {
        static EMPTY: OnceLock<Map<String, Value>> = OnceLock::new();
        let node = self.document.pointer(pointer).and_then(Value::as_object);
        node.unwrap_or_else(|| EMPTY.get_or_init(Map::new))
    }
}

/// Whether a path is one of a template, whose `{name}` is a segment that is not empty.
fn is_match(template: &str, path: &str) -> bool {
    let (mut known, mut given) = (template.split('/'), path.split('/'));
    loop {
        match (known.next(), given.next()) {
            (None, None) => return true,
            (Some(known), Some(given)) if known == given || (known.starts_with('{') && !given.is_empty()) => {}
            _ => return false,
        }
    }
}

/// Escapes a member's name for a JSON pointer.
fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Makes every schema of an object refuse members that it does not name.
fn close_objects(node: &mut Value) {
    match node {
        Value::Array(items) => items.iter_mut().for_each(close_objects),
        Value::Object(members) => {
            members.values_mut().for_each(close_objects);
            if members.contains_key("type") && members.get("properties").is_some_and(Value::is_object) {
                members.entry("additionalProperties").or_insert(Value::Bool(false));
            }
        }
        _ => {}
    }
}
