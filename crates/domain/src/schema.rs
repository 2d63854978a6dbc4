//! JSON Schemas of the types that are text with a rule of its own. The rest of the API's types derive theirs.
//!
//! `tools/openapi` makes the OpenAPI document of them. The functions never call this code, so that the linker leaves it
//! out of their modules.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::{
    event::event_types,
    http::problem::Code,
    ids::{ActivityId, OrderNo, SkuId, UserId},
    money::Currency,
    time::Millis,
};

/// The type of an event for the shop, such as `order.paid`.
pub struct EventType;

macro_rules! text_schemas {
    ($($name:ident = $schema:tt;)*) => {
        $(impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        })*
    };
}

text_schemas! {
    ActivityId = {
        "description": "An activity's id.",
        "type": "string",
        "pattern": "^[a-z0-9][a-z0-9-]{0,39}$",
        "examples": ["spring-2026"]
    };
    SkuId = {
        "description": "A SKU's id, unique within its activity.",
        "type": "string",
        "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$",
        "examples": ["phone-black"]
    };
    OrderNo = {
        "description": "An order's number, `<activity>.<ULID>`. The ULID is that of the ticket that made the order.",
        "type": "string",
        "pattern": "^[a-z0-9][a-z0-9-]{0,39}\\.[0-7][0-9A-HJKMNP-TV-Z]{25}$",
        "examples": ["spring-2026.01JZ8Q4M7T3V9X2C5B6N0K1R8W"]
    };
    UserId = {
        "description": "A user's id, as issued by the issuer (`sub`): 1 to 96 bytes of UTF-8.",
        "type": "string",
        "minLength": 1,
        "maxLength": 96,
        "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]+$",
        "examples": ["ada"]
    };
    Currency = {
        "description": "An ISO 4217 code of a currency. Its minor unit is that of the standard, such as a hundredth of EUR and HUF, and a whole JPY.",
        "type": "string",
        "pattern": "^[A-Z]{3}$",
        "examples": ["EUR"]
    };
    EventType = {
        "description": "The type of an event: the status that an order reached, what happened to an activity or a SKU, or an operator's test.",
        "type": "string",
        "enum": event_types()
    };
    Code = {
        "description": "The stable code of an error, on which a client acts.",
        "type": "string",
        "enum": Code::ALL
    };
}

/// Requests may have any offset and precision; responses are in UTC, in milliseconds.
impl JsonSchema for Millis {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = json_schema!({ "type": "string", "format": "date-time" });
        if generator.contract().is_serialize() {
            schema.insert("pattern".to_owned(), r"\.[0-9]{3}Z$".into());
        }
        schema
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn every_example_of_an_identifier_is_valid() {
        fn examples<T: JsonSchema>() -> Vec<String> {
            let schema = T::json_schema(&mut SchemaGenerator::default());
            let texts = schema.get("examples").and_then(Value::as_array).expect("examples");
            texts.iter().map(|text| text.as_str().expect("text").to_owned()).collect()
        }
        assert!(examples::<ActivityId>().iter().all(|text| ActivityId::parse(text).is_ok()));
        assert!(examples::<SkuId>().iter().all(|text| SkuId::parse(text).is_ok()));
        assert!(examples::<OrderNo>().iter().all(|text| OrderNo::parse(text).is_ok()));
        assert!(examples::<UserId>().iter().all(|text| UserId::parse(text).is_ok()));
    }
}
