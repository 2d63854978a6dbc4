//! Parameters, headers and responses that operations share.

use domain::http::problem::{Code, ProblemDocument};
use serde_json::{Map, Value, json};

use crate::schemas::Schemas;

/// A reference to a component.
pub fn reference(kind: &str, name: &str) -> Value {
    json!({ "$ref": format!("#/components/{kind}/{name}") })
}

/// The component of a path's parameter.
#[expect(clippy::panic, reason = "only the program that writes the document runs this, and its tests")]
pub fn path_parameter(name: &str) -> Value {
    let component = match name {
        "activity" => "Activity",
        "order_no" => "OrderNo",
        "sku" => "Sku",
        "user" => "User",
        "ip" => "Ip",
        "id" => "CallbackId",
        "code" => "PresaleCode",
        _ => panic!("the parameter {name} has no component"),
    };
    reference("parameters", component)
}

pub fn common_headers() -> Map<String, Value> {
    headers(&[("x-request-id", "RequestId"), ("cache-control", "CacheControl")])
}

pub fn limit_headers() -> Map<String, Value> {
    headers(&[("ratelimit-policy", "RateLimitPolicy"), ("ratelimit", "RateLimit")])
}

fn headers(names: &[(&str, &str)]) -> Map<String, Value> {
    names.iter().map(|(name, component)| ((*name).to_owned(), reference("headers", component))).collect()
}

/// The response for one or more errors of the same status.
pub fn problem_response(codes: &[Code], limited: bool) -> Value {
    let mut headers = common_headers();
    if limited || codes == [Code::RateLimited] {
        headers.append(&mut limit_headers());
    }
    if matches!(codes[0].status(), 429 | 503) {
        headers.insert("retry-after".to_owned(), reference("headers", "RetryAfter"));
    }
    if codes.contains(&Code::NotOpen) {
        headers.insert("retry-after".to_owned(), reference("headers", "OpensAfter"));
    }
    if codes.contains(&Code::Unauthenticated) {
        headers.insert("www-authenticate".to_owned(), reference("headers", "WwwAuthenticate"));
    }
    if codes == [Code::MethodNotAllowed] {
        headers.insert("allow".to_owned(), reference("headers", "Allow"));
    }
    let descriptions: Vec<String> =
        codes.iter().map(|code| format!("`{}`: {}", code.as_str(), code.description())).collect();
    let names: Vec<&str> = codes.iter().map(|code| code.as_str()).collect();
    // Types and one-value enums rather than `const`: generators merge them with the members of `Problem`.
    let occurrence = json!({ "properties": {
        "status": { "type": "integer", "enum": [codes[0].status()] }, "code": { "type": "string", "enum": names },
    } });
    let schema = json!({ "allOf": [reference("schemas", "Problem"), occurrence] });
    json!({
        "description": descriptions.join(" "),
        "headers": headers,
        "content": { "application/problem+json": { "schema": schema } },
    })
}

/// Returns the components except the schemas, whose definitions `schemas` collects. `codes` are the errors that are
/// responses of their own.
pub fn components(schemas: &mut Schemas, codes: &[Code]) -> Map<String, Value> {
    schemas.response::<ProblemDocument<'_>>();
    let rebuilding = schemas.response::<operations::commands::documents::RebuildingActivity<'_>>();
    let mut responses: Map<String, Value> =
        codes.iter().map(|code| (format!("{code:?}"), problem_response(&[*code], false))).collect();
    responses.insert(
        "Rebuilding".to_owned(),
        json!({
            "description": "Saved. The activity had no gate in Redis, which is being rebuilt from the ledger: until then nothing is sold. Repeat the rebuild with its `epoch`, or leave it to the sweeps.",
            "headers": common_headers(),
            "content": { "application/json": { "schema": rebuilding } },
        }),
    );
    let components = json!({
        "securitySchemes": {
            "jwt": {
                "type": "http", "scheme": "bearer", "bearerFormat": "JWT",
                "description": "A sign-in token: RS256, ES256, EdDSA or HS256, as the app is configured; with `sub`, `exp`, `iss`, `aud`, and optionally `level` (integer) and `member` (boolean).",
            },
            "ticket": {
                "type": "http", "scheme": "bearer", "bearerFormat": "ticket",
                "description": "The ticket that made the order.",
            },
            "adminToken": { "type": "http", "scheme": "bearer", "description": "The variable `admin_token`, or a token of `operator_tokens` with the role that the route needs: `money` for parked callbacks, `operate` for other changes, both for prices on sale. One with `fulfil` alone reads orders and their addresses." },
            "metricsToken": { "type": "http", "scheme": "bearer", "description": "The variable `metrics_token`." },
            "cronToken": { "type": "http", "scheme": "bearer", "description": "The variable `cron_token`." },
        },
        "parameters": parameters(),
        "headers": header_components(),
        "responses": responses,
    });
    match components {
        Value::Object(components) => components,
        _ => Map::new(),
    }
}

fn parameters() -> Value {
    let in_path = |name: &str, description: &str, schema: Value| json!({ "name": name, "in": "path", "required": true, "description": description, "schema": schema });
    let in_header = |name: &str, description: &str, schema: Value| json!({ "name": name, "in": "header", "required": true, "description": description, "schema": schema });
    let seconds = json!({ "type": "string", "pattern": "^[0-9]{1,12}$", "examples": ["1795266138"] });
    json!({
        "Activity": in_path("activity", "The activity.", reference("schemas", "ActivityId")),
        "OrderNo": in_path("order_no", "The order.", reference("schemas", "OrderNo")),
        "Sku": in_path("sku", "The SKU.", reference("schemas", "SkuId")),
        "User": in_path("user", "The user.", reference("schemas", "UserId")),
        "Ip": in_path(
            "ip",
            "An IPv4 address, or an IPv6 address, of which the /64 counts.",
            json!({ "type": "string", "anyOf": [{ "format": "ipv4" }, { "format": "ipv6" }], "examples": ["203.0.113.7"] }),
        ),
        "CallbackId": in_path(
            "id", "The callback's `id`.", json!({ "type": "string", "minLength": 1, "examples": ["evt_1"] }),
        ),
        "PresaleCode": in_path(
            "code", "The code; spaces, hyphens and case do not matter.",
            json!({ "type": "string", "minLength": 6, "examples": ["K7Q2M9XWDA"] }),
        ),
        "WebhookId": in_header(
            "webhook-id",
            "The message's id, the same at every attempt. It is kept for 30 days: a second message with it changes nothing.",
            json!({ "type": "string", "minLength": 1, "examples": ["evt_1"] }),
        ),
        "WebhookTimestamp": in_header(
            "webhook-timestamp", "The attempt's time in seconds since 1970, at most 300 off.", seconds.clone(),
        ),
        "WebhookSignature": in_header(
            "webhook-signature",
            "Standard Webhooks 1.0: `v1,` and the base64 of an HMAC-SHA256; several are separated by spaces.",
            json!({ "type": "string", "examples": ["v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw="] }),
        ),
        "CallId": in_header(
            "webhook-id",
            "The call's id. A call that is repeated has the same one, and gets the first answer.",
            json!({ "type": "string", "pattern": "^[0-9A-Za-z_]+$", "examples": ["open_01JZ8Q4M7T3V9X2C5B6N0K1R8W_1"] }),
        ),
        "IdempotencyKey": in_header(
            "idempotency-key", "The same as `webhook-id`, which is signed.", json!({ "type": "string" }),
        ),
        "EventId": in_header(
            "webhook-id",
            "The event's id, the same at every attempt.",
            json!({ "type": "string", "pattern": "^evt_([0-9A-Z]{26}_[a-z_]+|[a-z0-9-]{1,40}_[a-z_]+_[0-9]+)$" }),
        ),
        "EventTimestamp": in_header("webhook-timestamp", "The attempt's time in seconds since 1970.", seconds),
    })
}

fn header_components() -> Value {
    let seconds = json!({ "type": "integer", "format": "int64", "minimum": 1 });
    json!({
        "RequestId": {
            "description": "The id of the request in the log: the `x-request-id` of the request (1 to 64 letters, digits and `-`), or a new one.",
            "required": true, "schema": { "type": "string", "pattern": "^[A-Za-z0-9-]{1,64}$" },
        },
        "RetryAfter": {
            "description": "Seconds to wait before the next try.", "required": true, "schema": seconds.clone(),
        },
        "OpensAfter": { "description": "With `not_open`: seconds until it opens.", "schema": seconds.clone() },
        "PollAfter": {
            "description": "Seconds to wait before the next poll; absent if only an action changes the order.",
            "schema": seconds,
        },
        "RateLimitPolicy": {
            "description": "The limits: quota `q` in a window of `w` seconds.",
            "schema": { "type": "string", "examples": ["\"user\";q=60;w=60"] },
        },
        "RateLimit": {
            "description": "What is left of them: `r` requests, and more in `t` seconds.",
            "schema": { "type": "string", "examples": ["\"user\";r=59;t=1"] },
        },
        "Location": {
            "description": "Where to poll the order.", "required": true,
            "schema": { "type": "string", "format": "uri-reference", "pattern": "^/api/orders/" },
        },
        "NextPage": { "description": "Of books: the next page, as `rel=\"next\"`.", "schema": { "type": "string" } },
        "ETag": {
            "description": "The document's entity tag.", "required": true,
            "schema": { "type": "string", "pattern": "^\"[0-9a-f]+\"$" },
        },
        "CacheControl": {
            "description": "Who may cache the response, and for how long.", "required": true,
            "schema": { "type": "string" },
        },
        "UnreadActivities": {
            "description": "The activities, separated by spaces and at most 20, whose orders that the ledger does not have yet could not be read: they are missing. Absent if there are none.",
            "schema": { "type": "string", "examples": ["sale-2 sale-3"] },
        },
        "WwwAuthenticate": {
            "description": "With `unauthenticated`.", "schema": { "type": "string", "examples": ["Bearer"] },
        },
        "Allow": {
            "description": "The route's methods.", "required": true,
            "schema": { "type": "string", "examples": ["GET, PUT"] },
        },
    })
}
