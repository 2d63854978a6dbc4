//! Sign-in tokens: as the issuer issues them, and forged ones.

use dev::variables::Variables;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use time::OffsetDateTime;

/// The claims of a token; a test can change or remove each of them.
#[derive(Debug, Clone)]
pub struct Claims(Value);

impl Claims {
    /// Valid claims of a user, expiring in an hour.
    pub fn for_user(user: &str, variables: &Variables) -> Self {
        Self(json!({
            "sub": user,
            "iss": variables.get("jwt_issuer"),
            "aud": variables.get("jwt_audience"),
            "exp": OffsetDateTime::now_utc().unix_timestamp() + 3600,
        }))
    }

    /// Sets a claim; `null` removes it.
    pub fn with_claim(mut self, name: &str, value: Value) -> Self {
        match (value.is_null(), self.0.as_object_mut()) {
            (true, Some(claims)) => drop(claims.remove(name)),
            _ => self.0[name] = value,
        }
        self
    }

    /// Signs the claims with the key that the app accepts.
    pub fn sign(&self, variables: &Variables) -> String {
        self.sign_with(Algorithm::HS256, variables.get("jwt_key"))
    }

    /// Signs the claims with any key and algorithm.
    pub fn sign_with(&self, algorithm: Algorithm, key: &str) -> String {
        encode(&Header::new(algorithm), &self.0, &EncodingKey::from_secret(key.as_bytes())).expect("a token")
    }
}
