//! Puts the document together.

use domain::{
    event::{ActivityChange, PARTIALLY_REFUNDED, TEST},
    http::problem::Code,
    ids::{ActivityId, SkuId},
    order::OrderStatus,
    schema::EventType,
};
use serde_json::{Map, Value, json};

use crate::{
    components::{components, path_parameter, reference},
    foreign,
    operations::operations,
    payments,
    schemas::{Schemas, join_enums},
};

/// The documents as text: of the whole API, and of the protocol of payment services.
pub fn texts() -> [String; 2] {
    let document = document();
    let payments = payments::document(&document);
    [document, payments].map(|document| format!("{document:#}\n"))
}

fn document() -> Value {
    let mut schemas = Schemas::new();
    let operations = operations(&mut schemas);
    let mut paths = Map::new();
    for operation in &operations {
        let item = paths.entry(operation.path()).or_insert_with(|| json!({}));
        item[operation.method().as_str().to_lowercase()] = operation.to_json();
        let parameters: Vec<Value> = operation.path_parameters().map(path_parameter).collect();
        if !parameters.is_empty() {
            item["parameters"] = parameters.into();
        }
    }
    let mut codes = vec![Code::MethodNotAllowed];
    codes.extend(operations.iter().flat_map(|operation| operation.components()));
    let mut webhooks: Map<String, Value> = OrderStatus::ALL
        .into_iter()
        .filter(|status| status.has_event())
        .map(|status| order_webhook(&mut schemas, status))
        .collect();
    let part = order_webhook_of(
        &mut schemas,
        PARTIALLY_REFUNDED,
        ("onPartiallyRefunded", "A part of an order's payment is given back"),
        OrderStatus::Paid,
    );
    webhooks.extend([part]);
    webhooks.extend(ActivityChange::ALL.map(|change| activity_webhook(&mut schemas, change)));
    let test = json!({ "type": "object", "properties": {} });
    let text = ("onTest", "An operator tests the endpoint");
    webhooks.insert(TEST.to_owned(), webhook(&mut schemas, TEST, text, "When the operator asked for it.", test));
    webhooks.append(&mut payments::calls(&mut schemas));
    let mut components = components(&mut schemas, &codes);
    let mut schemas = schemas.into_components();
    schemas.append(&mut foreign::components());
    components.insert("schemas".to_owned(), schemas.into());
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Stampede",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "A flash sale: gate, ticket, reserve, poll, pay.",
            "description": "Times are RFC 3339 in UTC with milliseconds, money is in minor units. A body is JSON of at most 16 KiB, a callback of 64 KiB. Operators' routes refuse unknown members and query parameters, the others ignore them. Every response has `content-length` and `x-request-id`, every error is a problem document (RFC 9457) with a stable `code`, and every 429 and 503 has `Retry-After`. A route for `GET` takes `HEAD`; a method that a path does not have is `405` with `Allow`. The version is the app's, a semantic one. In a major version, and before 1.0.0 in a minor one, `/api` and events only grow: ignore members, codes, enum values and event types that you do not know. What is there keeps its name, type and meaning.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "tags": [
            { "name": "activities", "description": "What visitors see." },
            { "name": "buying", "description": "From the human check to the reservation." },
            { "name": "orders", "description": "Polling, paying, cancelling, refunds." },
            { "name": "providers", "description": "Calls to a payment service of the shop, and callbacks of payment providers." },
            { "name": "operation", "description": "For the cron job." },
            { "name": "admin", "description": "For operators." },
            { "name": "health", "description": "For probes and Prometheus." },
            { "name": "events", "description": "What the shop receives." },
        ],
        "paths": paths,
        "webhooks": webhooks,
        "components": components,
    });
    join_enums(&mut document);
    document
}

/// The event for an order that reached a status.
fn order_webhook(schemas: &mut Schemas, status: OrderStatus) -> (String, Value) {
    let (id, summary) = match status {
        OrderStatus::Waiting => ("onWaiting", "Somebody waits in a line"),
        OrderStatus::Queued => ("onQueued", "An order is queued"),
        OrderStatus::PendingPayment => ("onPendingPayment", "An order waits for payment"),
        OrderStatus::Paid => ("onPaid", "An order is paid"),
        OrderStatus::Cancelled => ("onCancelled", "An order is cancelled"),
        OrderStatus::Expired => ("onExpired", "An order is expired"),
        OrderStatus::Failed => ("onFailed", "An order is failed"),
        OrderStatus::Refunding => ("onRefunding", "An order is refunding"),
        OrderStatus::Refunded => ("onRefunded", "An order is refunded"),
    };
    order_webhook_of(schemas, status.as_str(), (id, summary), status)
}

/// An event for an order that has this status then.
fn order_webhook_of(schemas: &mut Schemas, name: &str, text: (&str, &str), status: OrderStatus) -> (String, Value) {
    let data = schemas.order_with_status(status);
    let event_type = format!("order.{name}");
    let webhook = webhook(schemas, &event_type, text, "When that happened.", data);
    (event_type, webhook)
}

/// The event for an activity or a SKU that changed.
fn activity_webhook(schemas: &mut Schemas, change: ActivityChange) -> (String, Value) {
    let seen = "When a sweep saw it.";
    let (id, summary, happened) = match change {
        ActivityChange::Published => {
            ("onPublished", "An activity is published or resumed, or its start is later", "When it changed.")
        }
        ActivityChange::Opened => ("onOpened", "An activity is open", seen),
        ActivityChange::Paused => ("onPaused", "An activity is paused", "When it was paused."),
        ActivityChange::Ended => ("onEnded", "An activity has ended, or is closed", seen),
        ActivityChange::SoldOut => ("onSoldOut", "A SKU has nothing left", seen),
        ActivityChange::Back => ("onBack", "A SKU that was sold out has something left", seen),
        ActivityChange::Restored => (
            "onRestored",
            "Redis had lost orders of an activity, which is rebuilt from the ledger",
            "When the epoch began.",
        ),
    };
    let mut data = json!({
        "type": "object",
        "required": ["activity"],
        "properties": {
            "activity": schemas.response::<ActivityId>(),
            "rehearsal": { "description": "Whether the activity is a rehearsal; absent if not.", "type": "boolean" },
        },
    });
    if change.is_of_sku() {
        data["required"] = json!(["activity", "sku", "name"]);
        data["properties"]["sku"] = schemas.response::<SkuId>();
        data["properties"]["name"] = json!({
            "description": "What it is called, as in events about orders; null once the activity is erased.",
            "type": ["string", "null"],
        });
    } else if change == ActivityChange::Restored {
        data["required"] = json!(["activity", "epoch"]);
        data["properties"]["epoch"] =
            json!({ "description": "The epoch that the rebuild began.", "type": "integer", "minimum": 1 });
    }
    let event_type = change.event_type();
    let webhook = webhook(schemas, &event_type, (id, summary), happened, data);
    (event_type, webhook)
}

fn webhook(schemas: &mut Schemas, event_type: &str, (id, summary): (&str, &str), happened: &str, data: Value) -> Value {
    let kind = schemas.response::<EventType>();
    let mut timestamp = schemas.response::<domain::time::Millis>();
    timestamp["description"] = happened.into();
    let schema = json!({
        "type": "object",
        "required": ["type", "timestamp", "data"],
        "properties": {
            "type": { "allOf": [kind, { "const": event_type }] },
            "timestamp": timestamp,
            "data": data,
        },
    });
    json!({
        "post": {
            "operationId": id,
            "tags": ["events"],
            "summary": summary,
            "security": [],
            "parameters": [
                reference("parameters", "EventId"),
                reference("parameters", "EventTimestamp"),
                reference("parameters", "WebhookSignature"),
            ],
            "requestBody": { "required": true, "content": { "application/json": { "schema": schema } } },
            "responses": {
                "2XX": { "description": "Received: the event is not sent again." },
                "410": { "description": "The endpoint is gone: nothing is sent until an operator enables it." },
                "429": {
                    "description": "Fewer events are sent at once, and none before `Retry-After`. The same holds for 502 and 504."
                },
                "default": {
                    "description": "Sent again after 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h and 24 h; then the event has failed; a `test` fails at once. Redirects are not followed."
                },
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use domain::http::routes::TABLES;

    use super::*;

    #[test]
    fn every_route_of_the_api_is_documented_once() {
        let mut documented = BTreeSet::new();
        for operation in operations(&mut Schemas::new()) {
            let route = (operation.path(), operation.method().to_string());
            assert!(documented.insert(route.clone()), "{route:?} is there twice");
        }
        let routes = TABLES.iter().filter(|(function, _)| !["sandbox", "static-files"].contains(function));
        let braces = |segment: &str| segment.strip_prefix(':').map_or(segment.to_owned(), |name| format!("{{{name}}}"));
        let path = |pattern: &str| pattern.split('/').map(braces).collect::<Vec<_>>().join("/");
        let routes = routes.flat_map(|(_, routes)| routes.iter());
        assert_eq!(documented, routes.map(|route| (path(route.pattern), route.method.to_string())).collect());
    }

    #[test]
    fn every_list_has_pages_of_one_form() {
        let document = document();
        let mut lists = 0;
        for (path, operations) in document["paths"].as_object().expect("paths") {
            let schema = &operations["get"]["responses"]["200"]["content"]["application/json"]["schema"];
            let target = schema["$ref"].as_str().map_or("", |reference| &reference[1..]);
            let schema = document.pointer(target).filter(|_| !target.is_empty()).unwrap_or(schema);
            assert_ne!(schema["type"], "array", "{path}");
            let parameters = operations["get"]["parameters"].as_array().cloned().unwrap_or_default();
            let names: Vec<_> =
                parameters.iter().filter(|it| it["in"] == "query").map(|it| it["name"].clone()).collect();
            let is_paged = names.ends_with(&["before".into(), "limit".into()]);
            // One page has all that a person can look at.
            let is_whole = path == "/api/admin/inbox";
            let members = &schema["properties"];
            let is_page = members["items"].is_object() && members["next"].is_object();
            assert_eq!(is_page, is_paged || is_whole, "{path}: {names:?}");
            lists += usize::from(is_paged);
        }
        assert_eq!(lists, 13);
    }

    #[test]
    fn every_reference_leads_to_a_component_and_no_description_names_a_rust_item() {
        let document = document();
        let mut nodes = vec![&document];
        while let Some(node) = nodes.pop() {
            match node {
                Value::Array(items) => nodes.extend(items),
                Value::Object(members) => {
                    if let Some(target) = members.get("$ref").and_then(Value::as_str) {
                        assert!(document.pointer(&target[1..]).is_some(), "{target} does not exist");
                    }
                    if let Some(text) = members.get("description").and_then(Value::as_str) {
                        assert!(!text.contains("[`") && !text.contains("::"), "{text}");
                    }
                    nodes.extend(members.values());
                }
                _ => {}
            }
        }
    }
}
