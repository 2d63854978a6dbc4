//! Schemas of the bodies, derived from their types.

use domain::order::OrderStatus;
use orders::ledger::events::OrderOfEvent;
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

/// Generates schemas, and collects those that have a name. A type may have other members in a request than in a
/// response, where every member is present.
pub struct Schemas {
    requests: SchemaGenerator,
    responses: SchemaGenerator,
}

impl Schemas {
    pub fn new() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        Self {
            requests: settings.clone().for_deserialize().into_generator(),
            responses: settings.for_serialize().into_generator(),
        }
    }

    /// The schema of a request body.
    pub fn request<T: JsonSchema>(&mut self) -> Value {
        self.requests.subschema_for::<T>().to_value()
    }

    /// The schema of an operator's body, which has no unknown members.
    pub fn strict_request<T: JsonSchema>(&mut self) -> Value {
        let mut schema = self.request::<T>();
        let name = schema["$ref"].as_str().and_then(|reference| reference.rsplit('/').next());
        match name.and_then(|name| self.requests.definitions_mut().get_mut(name)) {
            Some(definition) => close_objects(definition),
            None => close_objects(&mut schema),
        }
        schema
    }

    /// The schema of a response body.
    pub fn response<T: JsonSchema>(&mut self) -> Value {
        let mut schema = self.responses.subschema_for::<T>().to_value();
        remove_defaults(&mut schema);
        schema
    }

    /// The schema of an event's order, which had this status.
    pub fn order_with_status(&mut self, status: OrderStatus) -> Value {
        let order = self.response::<OrderOfEvent>();
        json!({ "allOf": [order, { "properties": { "status": { "const": status } } }] })
    }

    /// Returns the named schemas.
    ///
    /// # Panics
    /// If a type has one name and two schemas: give one of them another name, or mark it `inline`.
    pub fn into_components(mut self) -> Map<String, Value> {
        let mut components = self.responses.take_definitions(true);
        components.values_mut().for_each(remove_defaults);
        for (name, schema) in self.requests.take_definitions(true) {
            let known = components.entry(name.clone()).or_insert_with(|| schema.clone());
            assert!(*known == schema, "{name} differs in requests and responses:\n{schema}\n{known}");
        }
        components
    }
}

/// Makes each choice of texts an `enum`, whose values are described together: generators make one type of it.
pub fn join_enums(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(join_enums),
        Value::Object(members) => {
            let choices = members.get("oneOf").and_then(Value::as_array).cloned().unwrap_or_default();
            if !choices.is_empty() && choices.iter().all(|choice| choice["const"].is_string()) {
                let text = |value: &Value| value.as_str().map(|text| text.replace('\n', " "));
                let describe = |choice: &Value| {
                    Some(format!("- `{}`: {}", choice["const"].as_str()?, text(choice.get("description")?)?))
                };
                let description = members.get("description").and_then(text);
                let lines: Vec<_> = description.into_iter().chain(choices.iter().filter_map(describe)).collect();
                let values: Vec<_> = choices.iter().map(|choice| choice["const"].clone()).collect();
                members.remove("oneOf");
                members.extend([("type".to_owned(), "string".into()), ("enum".to_owned(), values.into())]);
                members.insert("description".to_owned(), lines.join("\n").into());
            }
            members.values_mut().for_each(join_enums);
        }
        _ => {}
    }
}

/// Makes objects refuse members that they do not name.
fn close_objects(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(close_objects),
        Value::Object(members) => {
            if members.contains_key("properties") {
                members.insert("additionalProperties".to_owned(), false.into());
            }
            members.values_mut().for_each(close_objects);
        }
        _ => {}
    }
}

/// Members of a response are present, so that they have no defaults.
fn remove_defaults(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(remove_defaults),
        Value::Object(members) => {
            members.remove("default");
            members.values_mut().for_each(remove_defaults);
        }
        _ => {}
    }
}
