//! The calls of the app to a payment service of the shop, and the document of that protocol alone.

use std::collections::BTreeSet;

use domain::{
    api::payments::{CloseSession, CreateRefund, GetRefund, OpenSession, RefundAnswer, SessionClosed, SessionOpened},
    http::routes::{Endpoint, PaymentCallback},
    time::Millis,
};
use serde_json::{Map, Value, json};

use crate::{components::reference, schemas::Schemas};

/// The calls, by their type.
pub fn calls(schemas: &mut Schemas) -> Map<String, Value> {
    let (opened, closed) = (schemas.request::<SessionOpened>(), schemas.request::<SessionClosed>());
    let refund = schemas.request::<RefundAnswer>();
    [
        (
            ("session.open", "openSession", "Open a payment"),
            schemas.response::<OpenSession>(),
            ("The open session. The app keeps `session` and sends the buyer to `url`.", opened),
        ),
        (
            ("session.close", "closeSession", "End a payment that is not paid, and tell its status"),
            schemas.response::<CloseSession>(),
            ("The status after the call.", closed),
        ),
        (
            ("refund.create", "createRefund", "Refund what is left of a payment"),
            schemas.response::<CreateRefund>(),
            ("The refund. Without its result, a callback or `refund.get` has it.", refund.clone()),
        ),
        (
            ("refund.get", "getRefund", "Tell the status of a refund"),
            schemas.response::<GetRefund>(),
            ("The refund.", refund),
        ),
    ]
    .into_iter()
    .map(|((kind, id, summary), data, answer)| (kind.to_owned(), call(schemas, kind, [id, summary], &data, answer)))
    .collect()
}

fn call(
    schemas: &mut Schemas,
    kind: &str,
    [id, summary]: [&str; 2],
    data: &Value,
    (description, answer): (&str, Value),
) -> Value {
    let mut timestamp = schemas.response::<Millis>();
    timestamp["description"] = "When the call was signed.".into();
    json!({
        "post": {
            "operationId": id,
            "tags": ["providers"],
            "summary": summary,
            "description": "Sent to `payments_url`.",
            "security": [],
            "parameters": [
                reference("parameters", "CallId"),
                reference("parameters", "IdempotencyKey"),
                reference("parameters", "EventTimestamp"),
                reference("parameters", "WebhookSignature"),
            ],
            "requestBody": { "required": true, "content": { "application/json": { "schema": {
                "type": "object",
                "required": ["type", "timestamp", "data"],
                "properties": { "type": { "const": kind }, "timestamp": timestamp, "data": data },
            } } } },
            "responses": {
                "200": { "description": description, "content": { "application/json": { "schema": answer } } },
                "401": { "description": "The signature does not hold." },
                "429": { "description": "The app asks again, not before `Retry-After`. The same holds for 503." },
                "default": {
                    "description": "The outcome is unknown: nothing has failed, and the app asks again. The same holds for an answer that does not arrive, and for one that does not fit the schema.",
                },
            },
        },
    })
}

/// The document of the protocol: the part of the whole `document` that a payment service needs.
pub fn document(document: &Value) -> Value {
    let mut part = document.clone();
    let callback = PaymentCallback::ROUTES[PaymentCallback::Standard as usize].pattern;
    retain(&mut part["paths"], |path| path == callback);
    retain(&mut part["webhooks"], |kind| {
        !["order.", "activity.", "sku.", "test"].iter().any(|event| kind.starts_with(event))
    });
    part["info"]["title"] = "Payment services for Stampede".into();
    part["info"]["summary"] = "The calls to a payment service, and its callbacks.".into();
    if let Some(tags) = part["tags"].as_array_mut() {
        tags.retain(|tag| tag["name"] == "providers");
    }
    let mut used = BTreeSet::new();
    let mut nodes = vec![&part["paths"], &part["webhooks"]];
    while let Some(node) = nodes.pop() {
        match node {
            Value::Array(items) => nodes.extend(items),
            Value::Object(members) => nodes.extend(members.values()),
            Value::String(text) if text.starts_with("#/") && used.insert(text[1..].to_owned()) => {
                nodes.extend(document.pointer(&text[1..]));
            }
            _ => {}
        }
    }
    for kind in ["schemas", "parameters", "headers", "responses", "securitySchemes"] {
        retain(&mut part["components"][kind], |name| used.contains(&format!("/components/{kind}/{name}")));
    }
    part
}

fn retain(members: &mut Value, keep: impl Fn(&str) -> bool) {
    if let Some(members) = members.as_object_mut() {
        members.retain(|name, _| keep(name));
    }
}
