//! Signs buyers' JWTs with the app's shared key.
//!
//! Without that key, buyers sign in at the sandbox instead.

use anyhow::Result;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde::Serialize;

use crate::target::JwtSettings;

/// Lifetime of a token, in seconds: longer than any simulated sale.
const TOKEN_LIFETIME_SECONDS: i64 = 6 * 3600;

/// Signs JWTs locally, without a request to the app.
pub struct TokenSigner {
    key: EncodingKey,
    settings: JwtSettings,
    expires_at: i64,
}

#[derive(Serialize)]
struct Claims<'a> {
    sub: &'a str,
    iat: i64,
    exp: i64,
    iss: &'a str,
    aud: &'a str,
}

impl TokenSigner {
    /// Creates a signer. Its tokens expire six hours after `now` (Unix seconds).
    pub fn new(settings: JwtSettings, now: i64) -> Self {
        Self {
            key: EncodingKey::from_secret(settings.key.as_bytes()),
            settings,
            expires_at: now + TOKEN_LIFETIME_SECONDS,
        }
    }

    /// Signs a token for `user`.
    pub fn sign(&self, user: &str) -> Result<String> {
        let claims = Claims {
            sub: user,
            iat: self.expires_at - TOKEN_LIFETIME_SECONDS,
            exp: self.expires_at,
            iss: &self.settings.issuer,
            aud: &self.settings.audience,
        };
        Ok(jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &self.key)?)
    }
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::{DecodingKey, Validation};

    use super::*;

    #[test]
    fn a_signed_token_carries_user_issuer_audience_and_a_valid_signature() {
        let settings = JwtSettings {
            key: "a key that is long enough for HS256".to_owned(),
            issuer: "https://shop.example".to_owned(),
            audience: "stampede".to_owned(),
        };
        let now = time::OffsetDateTime::now_utc().unix_timestamp();
        let token = TokenSigner::new(settings.clone(), now).sign("ada").unwrap();

        let mut validation = Validation::new(Algorithm::HS256);
        validation.set_audience(&["stampede"]);
        validation.set_issuer(&["https://shop.example"]);
        let key = DecodingKey::from_secret(settings.key.as_bytes());
        let claims: serde_json::Value = jsonwebtoken::decode(&token, &key, &validation).unwrap().claims;
        assert_eq!(claims["sub"], "ada");
        assert_eq!(claims["exp"], now + TOKEN_LIFETIME_SECONDS);
    }
}
