//! JSON Web Tokens of signed-in users (B1), verified with pinned algorithms.

pub mod key_set;

use std::{collections::HashMap, rc::Rc};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use jsonwebtoken::{
    Algorithm, DecodingKey, crypto, decode_header, get_current_timestamp,
    jwk::{AlgorithmParameters, Jwk, JwkSet},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use crate::{
    ids::UserId,
    jwt::key_set::KeySetVerifier,
    secret, sign_in,
    variables::{Fault, Variables},
};

/// Tolerated clock difference, in seconds.
pub const LEEWAY_SECONDS: u64 = 60;

/// Maximum length of a token, in bytes: with 200 groups it has 11 KB. Longer texts are refused without verification.
const MAX_TOKEN_BYTES: usize = 12 * 1024;

/// Claims of a valid token. An optional one that is absent or cannot be read is the least.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// The user.
    pub sub: UserId,
    /// The user's level; 0 if absent.
    pub level: i64,
    /// Whether the user is a member; false if absent.
    pub member: bool,
    /// The groups that the user belongs to, a text or the texts of an array: issuers put all sorts of things
    /// under this name.
    pub groups: Vec<String>,
}

/// The claims in a token. Each is read on its own: one that cannot be read makes no other one unreadable.
#[derive(Deserialize)]
struct RawClaims(HashMap<String, Box<RawValue>>);

impl RawClaims {
    /// Reads the claims of a token without verifying anything.
    fn of(token: &str) -> Result<Self, TokenError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(TokenError::TooLong);
        }
        let claims = token.split('.').nth(1).and_then(|claims| BASE64_URL_SAFE_NO_PAD.decode(claims).ok());
        claims.and_then(|claims| serde_json::from_slice(&claims).ok()).ok_or(TokenError::Malformed)
    }

    fn get<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_str(self.0.get(name)?.get()).ok()
    }

    fn require<T: DeserializeOwned>(&self, name: &'static str) -> Result<T, TokenError> {
        self.get(name).ok_or(TokenError::Claim(name))
    }

    /// A text, or the texts of an array.
    fn texts(&self, name: &str) -> Vec<String> {
        let values = self.get(name).unwrap_or_else(|| self.0.get(name).cloned().into_iter().collect::<Vec<_>>());
        values.iter().filter_map(|value| serde_json::from_str(value.get()).ok()).collect()
    }
}

/// Why a token is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenError {
    /// It is no JWT.
    Malformed,
    /// It has more than 12 KB.
    TooLong,
    /// It is signed with another algorithm.
    Algorithm,
    /// It is not signed with one of the keys.
    Forged,
    /// The signature is valid, but this claim is missing or cannot be read, or is another issuer or audience.
    Claim(&'static str),
    /// The signature is valid, but the token is not valid yet (`nbf`).
    Early,
    /// The signature is valid, but the token has expired.
    Expired,
    /// The token is valid, but operators cannot name its user ([`UserId::is_nameable`]).
    Unnameable,
    /// It names a key that the issuer may have published since its keys were fetched.
    Unconfirmed,
}

impl TokenError {
    /// The reason in the log and the metrics.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::TooLong => "too_long",
            Self::Algorithm => "algorithm",
            Self::Forged => "signature",
            Self::Claim(name) => name,
            Self::Early => "nbf",
            Self::Expired => "expired",
            Self::Unnameable => "unnameable",
            Self::Unconfirmed => "unknown_key",
        }
    }

    /// Whether someone else than the issuer may have made the token.
    #[must_use]
    pub fn may_be_forged(self) -> bool {
        matches!(self, Self::Malformed | Self::Algorithm | Self::Forged | Self::Unconfirmed)
    }

    /// Whether the issuer has made the token, but not as the variables `jwt_…` or its user's name demand: each sign-in of
    /// this user, or of all of them, gets such a token.
    #[must_use]
    pub fn is_misconfigured(self) -> bool {
        matches!(self, Self::Claim(_) | Self::Unnameable)
    }
}

/// Returns the user whom a token names, without verifying anything. Only for refusing it.
#[must_use]
pub fn unverified_user(token: &str) -> Option<UserId> {
    RawClaims::of(token).ok()?.get("sub")
}

/// Maximum number of keys; a token without a known `kid` is tried with those that have none.
const MAX_KEYS: usize = 4;

/// Verifies tokens as the variables `jwt_…` say.
pub enum TokenVerifier {
    /// With the keys of the variable `jwt_key`.
    Configured(Verifier),
    /// With the keys that the issuer publishes at this URL.
    Published(KeySetVerifier, Rc<str>),
}

impl TokenVerifier {
    /// Reads the variables.
    pub fn parse(variables: &Variables) -> Result<Self, Fault> {
        let names = ["jwt_algorithm", "jwt_key", "jwt_jwks_url", "jwt_issuer", "jwt_audience"];
        let [algorithm, key, url, issuer, audience] = names.map(|name| variables.get(name));
        if url.is_empty() {
            return Verifier::new(&algorithm, &key, &issuer, &audience).map(Self::Configured);
        }
        if !key.is_empty() {
            return Err(Fault::new("jwt_key", "is set, and so is jwt_jwks_url: use one of them"));
        }
        // Who answers in the issuer's place signs in as any user.
        variables.parse("jwt_jwks_url", sign_in::origin)?;
        Ok(Self::Published(KeySetVerifier::new(&algorithm, &issuer, &audience)?, url))
    }
}

/// Verifies tokens against one algorithm, issuer and audience, and a few keys while the issuer rotates them.
pub struct Verifier {
    keys: Vec<Key>,
    rules: Rules,
}

struct Key {
    kid: Option<String>,
    key: DecodingKey,
}

impl Verifier {
    /// Creates a verifier from the variables `jwt_algorithm`, `jwt_key`, `jwt_issuer` and `jwt_audience`. The key is a PEM,
    /// a JWK or a set of up to four JWKs; for HS256 a secret, or two separated by a space, newest first.
    pub fn new(algorithm: &str, key: &str, issuer: &str, audience: &str) -> Result<Self, Fault> {
        let (algorithm, keys) = match algorithm {
            "RS256" => (Algorithm::RS256, public_keys(algorithm, key, DecodingKey::from_rsa_pem)?),
            "ES256" => (Algorithm::ES256, public_keys(algorithm, key, DecodingKey::from_ec_pem)?),
            "EdDSA" => (Algorithm::EdDSA, public_keys(algorithm, key, DecodingKey::from_ed_pem)?),
            "HS256" => (Algorithm::HS256, shared_keys(key)?),
            other => {
                let reason = format!("is {other:?}: use RS256, ES256, EdDSA or HS256");
                return Err(Fault::new("jwt_algorithm", reason));
            }
        };
        Ok(Self { keys, rules: Rules::new(algorithm, issuer, audience) })
    }

    /// Returns the claims of a token that is valid now.
    ///
    /// # Errors
    /// See [`TokenError`]. Only a token with a valid signature is reported as expired.
    pub fn verify(&self, token: &str) -> Result<Claims, TokenError> {
        let kid = match &self.keys[..] {
            [_] => None,
            _ => decode_header(token).map_err(|_| TokenError::Malformed)?.kid,
        };
        let is_named = |key: &&Key| kid.is_some() && key.kid == kid;
        let named = self.keys.iter().find(is_named);
        // A key with another id did not sign the token. An issuer of several keys names the key in its tokens: a forged one
        // should not cost a signature for each.
        let candidates = self.keys.iter().filter(|key| key.kid.is_none() || self.keys.len() == 1);
        let keys = named.into_iter().chain(candidates.filter(|_| named.is_none()));
        self.rules.verify_with_any(token, keys.map(|key| &key.key))
    }
}

/// What a valid token has.
struct Rules {
    algorithm: Algorithm,
    issuer: String,
    audience: String,
}

impl Rules {
    fn new(algorithm: Algorithm, issuer: &str, audience: &str) -> Self {
        Self { algorithm, issuer: issuer.to_owned(), audience: audience.to_owned() }
    }

    fn verify_with_any<'a>(
        &self,
        token: &str,
        keys: impl Iterator<Item = &'a DecodingKey>,
    ) -> Result<Claims, TokenError> {
        let mut results = keys.map(|key| self.verify(token, key));
        results.find(|result| *result != Err(TokenError::Forged)).unwrap_or(Err(TokenError::Forged))
    }

    /// Returns the claims of a token that `key` has signed. Times may have a fraction (RFC 7519, section 2). The library
    /// verifies the signature only: its own check of claims fails on an `nbf` that is an array.
    fn verify(&self, token: &str, key: &DecodingKey) -> Result<Claims, TokenError> {
        let header = decode_header(token).map_err(|_| TokenError::Malformed)?;
        if header.alg != self.algorithm {
            return Err(TokenError::Algorithm);
        }
        let claims = RawClaims::of(token)?;
        let (message, signature) = token.rsplit_once('.').ok_or(TokenError::Malformed)?;
        if !crypto::verify(signature, message.as_bytes(), key, self.algorithm).unwrap_or(false) {
            return Err(TokenError::Forged);
        }
        for (name, expected) in [("iss", &self.issuer), ("aud", &self.audience)] {
            if !claims.texts(name).contains(expected) {
                return Err(TokenError::Claim(name));
            }
        }
        let (now, leeway) = (get_current_timestamp() as f64, LEEWAY_SECONDS as f64);
        if claims.require::<f64>("exp")? + leeway < now {
            return Err(TokenError::Expired);
        }
        if claims.get::<f64>("nbf").is_some_and(|nbf| nbf > now + leeway) {
            return Err(TokenError::Early);
        }
        let sub: UserId = claims.require("sub")?;
        if !sub.is_nameable() {
            return Err(TokenError::Unnameable);
        }
        let (level, member) = (claims.get("level").unwrap_or_default(), claims.get("member").unwrap_or_default());
        Ok(Claims { sub, level, member, groups: claims.texts("groups") })
    }
}

fn public_keys(
    algorithm: &str,
    text: &str,
    from_pem: fn(&[u8]) -> Result<DecodingKey, jsonwebtoken::errors::Error>,
) -> Result<Vec<Key>, Fault> {
    let invalid = |error: &dyn std::fmt::Display| {
        Fault::new("jwt_key", format!("is not a {algorithm} key as PEM, JWK or JWK set: {error}"))
    };
    let jwks = match (serde_json::from_str::<JwkSet>(text), serde_json::from_str::<Jwk>(text)) {
        (Ok(set), _) if (1..=MAX_KEYS).contains(&set.keys.len()) => set.keys,
        (Ok(_), _) => return Err(invalid(&"a set has one to four keys")),
        (_, Ok(jwk)) => vec![jwk],
        _ if text.contains("PRIVATE KEY-----") => return Err(invalid(&"it is a private key: use its public key")),
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
    if let AlgorithmParameters::OctetKeyPair(key) = &jwk.algorithm
        && BASE64_URL_SAFE_NO_PAD.decode(&key.x).map_or(0, |bytes| bytes.len()) != 32
    {
        return Err("the x of an Ed25519 key is not 32 bytes in base64url".to_owned());
    }
    DecodingKey::from_jwk(jwk).map_err(|error| error.to_string())
}

/// The secrets of HS256. A JWK or a PEM is refused: its text, which may be public, would be the secret.
fn shared_keys(secrets: &str) -> Result<Vec<Key>, Fault> {
    if secrets.trim_start().starts_with(['{', '[']) || secrets.contains("-----BEGIN") {
        return Err(Fault::new("jwt_key", "is a JWK or a PEM, but jwt_algorithm is HS256: use random bytes"));
    }
    if let Some(fault) = secret::fault(secrets) {
        return Err(Fault::new("jwt_key", format!("{fault}: use 32 random bytes or more")));
    }
    let to_key = |secret: &str| Key { kid: None, key: DecodingKey::from_secret(secret.as_bytes()) };
    Ok(secret::active(secrets).take(MAX_KEYS).map(to_key).collect())
}

#[cfg(test)]
mod tests;
