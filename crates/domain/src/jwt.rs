//! JSON Web Tokens of signed-in users (B1), verified with pinned algorithms.

pub mod key_set;

use jsonwebtoken::{
    Algorithm, DecodingKey, Validation, decode, decode_header,
    errors::ErrorKind,
    jwk::{AlgorithmParameters, Jwk, JwkSet},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{ids::UserId, secret};

/// Tolerated clock difference, in seconds.
pub const LEEWAY_SECONDS: u64 = 60;

/// Maximum length of a token, in bytes; longer texts are refused without verification.
const MAX_TOKEN_BYTES: usize = 8 * 1024;

/// Claims of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// The user.
    pub sub: UserId,
    /// Expiry, in seconds since 1970.
    pub exp: i64,
    /// The user's level; 0 if absent.
    #[serde(default)]
    pub level: i64,
    /// Whether the user is a member; false if absent.
    #[serde(default)]
    pub member: bool,
    /// The groups that the user belongs to; empty if absent. Other values than texts are ignored: identity providers put
    /// all sorts of things under this name.
    #[serde(default, deserialize_with = "texts")]
    pub groups: Vec<String>,
}

/// Deserialises a text, or the texts of an array.
fn texts<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let values = match Value::deserialize(deserializer)? {
        Value::Array(values) => values,
        value => vec![value],
    };
    Ok(values.into_iter().filter_map(|value| value.as_str().map(str::to_owned)).collect())
}

/// Why a token is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenError {
    /// Malformed or too long, signed with another algorithm or key, for another issuer or audience, not valid yet
    /// (`nbf`), or a required claim is missing or invalid.
    Forged,
    /// The signature is valid, but the token has expired.
    Expired,
    /// The token is valid, but operators cannot name its user ([`UserId::is_nameable`]).
    Unnameable,
    /// It names a key that the issuer may have published since its keys were fetched.
    Unconfirmed,
}

/// Returns the user whom a token names, without verifying anything. Only for refusing it.
#[must_use]
pub fn unverified_user(token: &str) -> Option<UserId> {
    use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};

    #[derive(Deserialize)]
    struct Subject {
        sub: UserId,
    }
    let claims = token.split('.').nth(1).filter(|_| token.len() <= MAX_TOKEN_BYTES)?;
    let claims = BASE64_URL_SAFE_NO_PAD.decode(claims).ok()?;
    serde_json::from_slice::<Subject>(&claims).ok().map(|subject| subject.sub)
}

/// Maximum number of keys; a token without a known `kid` is tried with those that have none.
const MAX_KEYS: usize = 4;

/// Verifies tokens against one algorithm, issuer and audience, and a few keys while the identity provider rotates them.
pub struct Verifier {
    keys: Vec<Key>,
    validation: Validation,
}

struct Key {
    /// The key's id, of a JWK that has one.
    kid: Option<String>,
    key: DecodingKey,
}

impl Verifier {
    /// Creates a verifier from the variables `jwt_algorithm`, `jwt_key`, `jwt_issuer` and `jwt_audience`. The key is a PEM,
    /// a JWK or a set of up to four JWKs; for HS256 a secret, or two separated by a space, newest first.
    ///
    /// # Errors
    /// A message for the operator that names the wrong variable.
    pub fn new(algorithm: &str, key: &str, issuer: &str, audience: &str) -> Result<Self, String> {
        let (algorithm, keys) = match algorithm {
            "RS256" => (Algorithm::RS256, public_keys(algorithm, key, DecodingKey::from_rsa_pem)?),
            "ES256" => (Algorithm::ES256, public_keys(algorithm, key, DecodingKey::from_ec_pem)?),
            "EdDSA" => (Algorithm::EdDSA, public_keys(algorithm, key, DecodingKey::from_ed_pem)?),
            "HS256" => (Algorithm::HS256, shared_keys(key)?),
            other => {
                return Err(format!("the variable jwt_algorithm is {other:?}: use RS256, ES256, EdDSA or HS256"));
            }
        };
        Ok(Self { keys, validation: validation(algorithm, issuer, audience) })
    }

    /// Returns the claims of a token that is valid now.
    ///
    /// # Errors
    /// See [`TokenError`]. Only a token with a valid signature is reported as expired.
    pub fn verify(&self, token: &str) -> Result<Claims, TokenError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(TokenError::Forged);
        }
        let kid = match &self.keys[..] {
            [_] => None,
            _ => decode_header(token).map_err(|_| TokenError::Forged)?.kid,
        };
        let is_named = |key: &&Key| kid.is_some() && key.kid == kid;
        let named = self.keys.iter().find(is_named);
        // A key with another id did not sign the token. An issuer of several keys names the key in its tokens: a forged one
        // should not cost a signature for each.
        let candidates = self.keys.iter().filter(|key| key.kid.is_none() || self.keys.len() == 1);
        let mut result = Err(TokenError::Forged);
        for key in named.into_iter().chain(candidates.filter(|_| named.is_none())) {
            result = verify_with(token, &key.key, &self.validation);
            if result != Err(TokenError::Forged) {
                break;
            }
        }
        result
    }
}

/// What a token must claim.
fn validation(algorithm: Algorithm, issuer: &str, audience: &str) -> Validation {
    let mut validation = Validation::new(algorithm);
    validation.leeway = LEEWAY_SECONDS;
    validation.set_issuer(&[issuer]);
    validation.set_audience(&[audience]);
    validation.set_required_spec_claims(&["exp", "sub", "iss", "aud"]);
    validation.validate_nbf = true;
    validation
}

/// Returns the claims of a token that `key` has signed.
fn verify_with(token: &str, key: &DecodingKey, validation: &Validation) -> Result<Claims, TokenError> {
    let data = decode::<Claims>(token, key, validation).map_err(|error| match error.kind() {
        ErrorKind::ExpiredSignature => TokenError::Expired,
        _ => TokenError::Forged,
    })?;
    if data.claims.sub.is_nameable() { Ok(data.claims) } else { Err(TokenError::Unnameable) }
}

/// The public keys in a PEM, a JWK or a set of JWKs.
fn public_keys(
    algorithm: &str,
    text: &str,
    from_pem: fn(&[u8]) -> Result<DecodingKey, jsonwebtoken::errors::Error>,
) -> Result<Vec<Key>, String> {
    let invalid = |error: &dyn std::fmt::Display| {
        format!("the variable jwt_key is not a {algorithm} key as PEM, JWK or JWK set: {error}")
    };
    let jwks = match (serde_json::from_str::<JwkSet>(text), serde_json::from_str::<Jwk>(text)) {
        (Ok(set), _) if (1..=MAX_KEYS).contains(&set.keys.len()) => set.keys,
        (Ok(_), _) => return Err(invalid(&"a set has one to four keys")),
        (_, Ok(jwk)) => vec![jwk],
        _ => {
            let key = from_pem(text.as_bytes()).map_err(|error| invalid(&error))?;
            return Ok(vec![Key { kid: None, key }]);
        }
    };
    let parse = |jwk: &Jwk| {
        let key = decoding_key(jwk).map_err(|error| invalid(&error))?;
        Ok(Key { kid: jwk.common.key_id.clone(), key })
    };
    jwks.iter().map(parse).collect()
}

/// Returns the key of a JWK. An Ed25519 key has 32 bytes: with a shorter one, the library panics when it verifies a token.
fn decoding_key(jwk: &Jwk) -> Result<DecodingKey, String> {
    use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};

    if let AlgorithmParameters::OctetKeyPair(key) = &jwk.algorithm
        && BASE64_URL_SAFE_NO_PAD.decode(&key.x).map_or(0, |bytes| bytes.len()) != 32
    {
        return Err("the x of an Ed25519 key is not 32 bytes in base64url".to_owned());
    }
    DecodingKey::from_jwk(jwk).map_err(|error| error.to_string())
}

/// The secrets of HS256. A JWK or a PEM is refused: its text, which may be public, would be the secret.
fn shared_keys(secrets: &str) -> Result<Vec<Key>, String> {
    if secrets.trim_start().starts_with(['{', '[']) || secrets.contains("-----BEGIN") {
        return Err("the variable jwt_key is a JWK or a PEM, but jwt_algorithm is HS256: use random bytes".to_owned());
    }
    if let Some(fault) = secret::fault(secrets) {
        return Err(format!("the variable jwt_key {fault}: use 32 random bytes or more"));
    }
    let to_key = |secret: &str| Key { kid: None, key: DecodingKey::from_secret(secret.as_bytes()) };
    Ok(secret::active(secrets).take(MAX_KEYS).map(to_key).collect())
}

#[cfg(test)]
mod tests;
