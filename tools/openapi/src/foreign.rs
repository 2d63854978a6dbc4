//! Schemas of bodies whose types belong to other projects.

use domain::api::orders::{CALLBACK_TYPES, PAYMENT_DISPUTED, SESSION_ENDED};
use serde_json::{Map, Value, json};

/// The schemas by name.
pub fn components() -> Map<String, Value> {
    let other: Vec<&str> = CALLBACK_TYPES.into_iter().chain([SESSION_ENDED, PAYMENT_DISPUTED]).collect();
    let components = json!({
        "AltchaChallenge": {
            "description": "ALTCHA 2: find the counter whose `PBKDF2/SHA-256` key begins with `keyPrefix`.",
            "type": "object",
            "required": ["parameters", "signature"],
            "properties": {
                "parameters": {
                    "type": "object",
                    "required": [
                        "algorithm", "nonce", "salt", "cost", "keyLength", "keyPrefix", "keySignature", "expiresAt", "data"
                    ],
                    "properties": {
                        "algorithm": { "type": "string", "const": "PBKDF2/SHA-256" },
                        "nonce": { "type": "string" },
                        "salt": { "type": "string" },
                        "cost": {
                            "type": "integer", "format": "int64", "minimum": 1, "description": "Iterations of one try."
                        },
                        "keyLength": {
                            "type": "integer", "format": "int64", "minimum": 1, "description": "Bytes of a key."
                        },
                        "keyPrefix": { "type": "string", "description": "Hexadecimal." },
                        "keySignature": { "type": "string" },
                        "expiresAt": {
                            "type": "integer", "format": "int64", "minimum": 0, "description": "Seconds since 1970."
                        },
                        "data": {
                            "type": "object",
                            "required": ["for"],
                            "properties": {
                                "for": { "type": "string", "description": "Binds it to the user and the activity." }
                            }
                        }
                    }
                },
                "signature": { "type": "string" }
            }
        },
        "OtherCallback": {
            "description": "A callback of another type: it is accepted and changes nothing.",
            "type": "object",
            "required": ["type"],
            "properties": { "type": { "type": "string", "not": { "enum": other } } }
        },
        "StripeEvent": {
            "description": "An event of Stripe. `checkout.session.*`, `refund.*`, `charge.refunded` and `charge.dispute.*` are used; others are accepted and change nothing.",
            "type": "object",
            "required": ["id", "type", "data"],
            "properties": {
                "id": { "type": "string" },
                "type": { "type": "string", "examples": ["checkout.session.completed"] },
                "data": {
                    "type": "object", "required": ["object"], "properties": { "object": { "type": "object" } }
                }
            }
        }
    });
    match components {
        Value::Object(components) => components,
        _ => Map::new(),
    }
}
