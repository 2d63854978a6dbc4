//! JSON Web Tokens of signed-in users (B1), verified with pinned algorithms.

pub mod key_set;

use jsonwebtoken::{
    Algorithm, DecodingKey, Validation, decode, decode_header,
    errors::ErrorKind,
    jwk::{AlgorithmParameters, Jwk, JwkSet},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

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

/// Returns a short name that tells a token from others, without verifying anything.
#[must_use]
pub fn token_hash(token: &str) -> String {
    hex::encode(&Sha256::digest(token)[..16])
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
mod tests {
    use jsonwebtoken::{EncodingKey, Header, encode};
    use serde_json::{Value, json};

    use super::*;

    const SECRET: &str = "kX9v2mQ7Lr4tY8wZ1nB6cD3fG5hJ0pS-";
    const FAR_FUTURE: i64 = 4_000_000_000;

    fn verifier() -> Verifier {
        Verifier::new("HS256", SECRET, "shop", "stampede").expect("a strong secret")
    }

    fn token(claims: &Value) -> String {
        encode(&Header::new(Algorithm::HS256), claims, &EncodingKey::from_secret(SECRET.as_bytes())).expect("a token")
    }

    #[test]
    fn a_valid_token_yields_its_claims() {
        let claims =
            json!({"sub": "ada", "exp": FAR_FUTURE, "iss": "shop", "aud": "stampede", "level": 2, "member": true});
        let claims = verifier().verify(&token(&claims)).expect("verified");
        assert_eq!((claims.sub.as_str(), claims.level, claims.member), ("ada", 2, true));
        assert!(claims.groups.is_empty());
    }

    #[test]
    fn a_token_without_expiry_issuer_audience_or_subject_is_refused() {
        for claims in [
            json!({"sub": "ada", "iss": "shop", "aud": "stampede"}),
            json!({"sub": "ada", "exp": FAR_FUTURE, "aud": "stampede"}),
            json!({"sub": "ada", "exp": FAR_FUTURE, "iss": "shop"}),
            json!({"exp": FAR_FUTURE, "iss": "shop", "aud": "stampede"}),
            json!({"sub": "ada", "exp": FAR_FUTURE, "iss": "other", "aud": "stampede"}),
            json!({"sub": "ada", "exp": FAR_FUTURE, "iss": "shop", "aud": "other"}),
            json!({"sub": "ada", "exp": FAR_FUTURE, "nbf": FAR_FUTURE - 1, "iss": "shop", "aud": "stampede"}),
            json!({"sub": "a\u{0}b", "exp": FAR_FUTURE, "iss": "shop", "aud": "stampede"}),
        ] {
            assert_eq!(verifier().verify(&token(&claims)), Err(TokenError::Forged), "{claims}");
        }
    }

    #[test]
    fn a_token_whose_user_operators_cannot_name_is_refused() {
        let user_of = |user: &str| {
            let claims = json!({"sub": user, "exp": FAR_FUTURE, "iss": "shop", "aud": "stampede"});
            verifier().verify(&token(&claims)).map(|claims| claims.sub)
        };
        let without_url = [".", "..", "../a", "a/..", "a/../../b", "a/./b", "a\\.."];
        let like_another = [
            " ",
            " a",
            "a ",
            "a  b",
            "a\u{a0}",
            "a\u{a0}b",
            "\u{3000}a",
            "a\u{2003}b",
            "a\u{2028}b",
            "a\u{feff}",
            "a\u{ad}b",
            "a\u{200b}b",
            "a\u{200d}b",
            "a\u{202e}b",
            "\u{2066}a\u{2069}",
            "a\u{2060}",
            "a\u{3164}",
            "a\u{fe0f}",
            "a\u{e0041}",
            "a\u{2800}",
            "a\u{fffb}",
            "a\u{1d159}",
            "a\u{16fe4}",
        ];
        for user in without_url.into_iter().chain(like_another) {
            assert_eq!(user_of(user), Err(TokenError::Unnameable), "{user:?}");
        }
        for user in [
            ".ada",
            "...",
            "a..b",
            "a/.b",
            "/",
            "https://id.example/users/7",
            "SHOP\\ada",
            "Ada Lovelace",
            "a b c",
            "auth0|5f",
            "ada@example.com",
            "Zoë",
            "Zoe\u{308}",
            "伊藤 愛",
            "עדה",
            "अदा",
            "😀",
        ] {
            assert_eq!(user_of(user).as_ref().map(UserId::as_str), Ok(user));
        }
    }

    #[test]
    fn the_unverified_user_is_the_subject_of_a_token() {
        let token = token(&json!({"sub": "ada"}));
        assert_eq!(unverified_user(&token).as_ref().map(UserId::as_str), Some("ada"));
        for odd in ["", "a", "a.b", "..", "a.e30.c", &"x".repeat(9_000)] {
            assert_eq!(unverified_user(odd), None, "{odd}");
        }
    }

    #[test]
    fn an_old_token_with_a_valid_signature_has_expired() {
        let old = json!({"sub": "ada", "exp": 1, "iss": "shop", "aud": "stampede"});
        assert_eq!(verifier().verify(&token(&old)), Err(TokenError::Expired));
        let other = encode(&Header::new(Algorithm::HS256), &old, &EncodingKey::from_secret(b"other")).expect("a token");
        assert_eq!(verifier().verify(&other), Err(TokenError::Forged));
    }

    #[test]
    fn another_algorithm_or_key_is_refused() {
        let claims = json!({"sub": "ada", "exp": FAR_FUTURE, "iss": "shop", "aud": "stampede"});
        let good = token(&claims);
        let (_, rest) = good.split_once('.').expect("a token");
        // {"alg":"none","typ":"JWT"}
        let none = format!("eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.{}.", rest.split('.').next().expect("claims"));
        assert_eq!(verifier().verify(&none), Err(TokenError::Forged));
        let other =
            encode(&Header::new(Algorithm::HS256), &claims, &EncodingKey::from_secret(b"other")).expect("a token");
        assert_eq!(verifier().verify(&other), Err(TokenError::Forged));
        let larger = encode(&Header::new(Algorithm::HS512), &claims, &EncodingKey::from_secret(SECRET.as_bytes()));
        assert_eq!(verifier().verify(&larger.expect("a token")), Err(TokenError::Forged));
    }

    #[test]
    fn a_weak_or_mistaken_key_is_refused() {
        assert!(Verifier::new("HS256", "short", "i", "a").is_err());
        assert!(Verifier::new("RS256", "not a pem", "i", "a").is_err());
        for x in ["AA", "11qYAYKxCrfVS_7TyWQHOg7hcvPapPcHURo"] {
            let short = json!({"kty": "OKP", "crv": "Ed25519", "x": x}).to_string();
            assert!(Verifier::new("EdDSA", &short, "i", "a").is_err(), "{short}");
        }
        assert!(Verifier::new("none", SECRET, "i", "a").is_err());
    }

    /// The text of a public key must not become a shared secret.
    #[test]
    fn hs256_refuses_a_key_that_others_may_know() {
        let jwk = r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;
        let set = format!(r#"{{"keys":[{jwk}]}}"#);
        let pem = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=";
        for key in [jwk, &format!(" {jwk}"), &set, &format!("[{jwk}]"), pem] {
            assert!(Verifier::new("HS256", key, "i", "a").is_err(), "{key}");
        }
    }

    #[test]
    fn two_shared_secrets_verify_while_one_replaces_the_other() {
        let claims = json!({"sub": "ada", "exp": FAR_FUTURE, "iss": "shop", "aud": "stampede"});
        let both = format!("Zt5-new-new-9Qw7e2r4u6i8o0p1a3s5d7f {SECRET}");
        let verifier = Verifier::new("HS256", &both, "shop", "stampede").expect("strong secrets");
        assert!(verifier.verify(&token(&claims)).is_ok());
        let old = json!({"sub": "ada", "exp": 1, "iss": "shop", "aud": "stampede"});
        assert_eq!(verifier.verify(&token(&old)), Err(TokenError::Expired));
        let other = encode(&Header::new(Algorithm::HS256), &claims, &EncodingKey::from_secret(b"other"));
        assert_eq!(verifier.verify(&other.expect("a token")), Err(TokenError::Forged));
        assert!(Verifier::new("HS256", &format!("{SECRET} short"), "shop", "stampede").is_err());
    }

    #[test]
    fn a_token_is_verified_by_the_key_of_the_set_that_it_names() {
        // RFC 8037, appendix A: a key and its public part; and another public key.
        let (x, other) = ("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", "GZ9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE");
        let named = |kid: Option<&str>, x: &str| json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": x});
        let jwk = |kid: &str, x: &str| named(Some(kid), x);
        let set = |first: &Value, second: &Value| json!({ "keys": [first, second] }).to_string();
        let pem = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END PRIVATE KEY-----\n";
        let signing_key = EncodingKey::from_ed_pem(pem.as_bytes()).expect("a key");
        let claims = json!({"sub": "ada", "exp": FAR_FUTURE, "iss": "shop", "aud": "stampede"});
        let sign = |kid: Option<&str>| {
            let header = Header { kid: kid.map(str::to_owned), ..Header::new(Algorithm::EdDSA) };
            encode(&header, &claims, &signing_key).expect("a token")
        };
        let verifier = |keys: &str| Verifier::new("EdDSA", keys, "shop", "stampede").expect("keys");
        let both = verifier(&set(&jwk("new", other), &jwk("old", x)));
        assert!(both.verify(&sign(Some("old"))).is_ok());
        assert_eq!(both.verify(&sign(None)), Err(TokenError::Forged), "it may be any of them");
        assert!(verifier(&jwk("only", x).to_string()).verify(&sign(None)).is_ok());
        let nameless = verifier(&set(&named(None, other), &named(None, x)));
        assert!(nameless.verify(&sign(None)).is_ok() && nameless.verify(&sign(Some("a"))).is_ok());
        assert_eq!(both.verify(&sign(Some("new"))), Err(TokenError::Forged));
        assert_eq!(both.verify(&sign(Some("unknown"))), Err(TokenError::Forged));
        assert!(Verifier::new("EdDSA", r#"{"keys":[]}"#, "shop", "stampede").is_err());
    }
}
