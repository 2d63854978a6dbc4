//! Verifies tokens with the key set that an issuer publishes (RFC 7517).

use jsonwebtoken::{
    Algorithm, DecodingKey, decode_header, get_current_timestamp,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse},
};
use serde::Deserialize;
use serde_json::Value;

use super::{Claims, LEEWAY_SECONDS, RawClaims, Rules, TokenError, decoding_key};
use crate::variables::Fault;

const MAX_SET_KEYS: usize = 64;

/// Maximum number of keys without a name that a token without a `kid` is tried with.
const MAX_TRIES: usize = 4;

/// The public keys of a set that can verify a token.
pub struct KeySet(Vec<SetKey>);

struct SetKey {
    kid: Option<String>,
    algorithm: Algorithm,
    key: DecodingKey,
}

/// Why a token is refused by a key set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeySetError {
    /// The token is not valid, whatever other keys there are.
    Token(TokenError),
    /// The token names a key that the set lacks, or has with another value: a newer set may have it.
    UnknownKey {
        /// When the token claims to have been issued, in seconds since 1970; 0 if it does not say.
        issued_at: u64,
    },
}

/// Verifies tokens against a list of algorithms, one issuer and one audience.
pub struct KeySetVerifier(Vec<Rules>);

impl KeySetVerifier {
    /// Creates a verifier from the variables `jwt_algorithm`, `jwt_issuer` and `jwt_audience`. `algorithms` are one or
    /// more of `RS256`, `ES256` and `EdDSA`, separated by spaces.
    pub fn new(algorithms: &str, issuer: &str, audience: &str) -> Result<Self, Fault> {
        let fault = |reason: String| Fault::new("jwt_algorithm", reason);
        let parse = |name: &str| match name {
            "RS256" => Ok(Algorithm::RS256),
            "ES256" => Ok(Algorithm::ES256),
            "EdDSA" => Ok(Algorithm::EdDSA),
            _ => Err(fault(format!("has {name:?}: with jwt_jwks_url, use RS256, ES256, EdDSA, or several of them"))),
        };
        let algorithms = algorithms.split_whitespace().map(parse).collect::<Result<Vec<_>, _>>()?;
        if algorithms.is_empty() {
            return Err(fault("is empty".to_owned()));
        }
        Ok(Self(algorithms.into_iter().map(|algorithm| Rules::new(algorithm, issuer, audience)).collect()))
    }

    /// Returns the claims of a token that is valid now.
    pub fn verify(&self, token: &str, keys: &KeySet) -> Result<Claims, KeySetError> {
        let error = KeySetError::Token;
        let header = decode_header(token).map_err(|_| error(TokenError::Malformed))?;
        let rules = self.0.iter().find(|rules| rules.algorithm == header.alg).ok_or(error(TokenError::Algorithm))?;
        let of_algorithm = || keys.0.iter().filter(|key| key.algorithm == header.alg);
        // An issuer of several keys names the key in its tokens. A forged token should not cost a signature for each.
        let is_only_one = header.kid.is_none() && of_algorithm().nth(1).is_none();
        let candidates = of_algorithm().filter(|key| key.kid == header.kid || is_only_one).take(MAX_TRIES);
        let result = rules.verify_with_any(token, candidates.map(|candidate| &candidate.key));
        if header.kid.is_none() || result != Err(TokenError::Forged) {
            return result.map_err(error);
        }
        let claims = RawClaims::of(token).map_err(error)?;
        let (now, leeway) = (get_current_timestamp(), LEEWAY_SECONDS as f64);
        // A page that was left open sends an old token, whose key is no longer published.
        if claims.require::<f64>("exp").map_err(error)? + leeway < now as f64 {
            return Err(error(TokenError::Expired));
        }
        // As an integer, a time before 1970 is 0.
        let issued_at = claims.get::<f64>("iat").unwrap_or_default() as u64;
        let is_possible = issued_at <= now + LEEWAY_SECONDS;
        Err(if is_possible { KeySetError::UnknownKey { issued_at } } else { error(TokenError::Forged) })
    }
}

impl KeySet {
    /// Reads the keys that verify signatures from a JWK set. Keys of other kinds, and those that cannot be read, are
    /// left out: a provider may publish them for others.
    ///
    /// # Errors
    /// A description, if the text is no JWK set or has no such key.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Set {
            keys: Vec<Value>,
        }
        let set: Set = serde_json::from_slice(text).map_err(|error| format!("it is no JWK set: {error}"))?;
        let jwks = set.keys.into_iter().filter_map(|key| serde_json::from_value::<Jwk>(key).ok());
        let keys: Vec<_> = jwks.filter_map(|jwk| SetKey::try_from_jwk(&jwk)).take(MAX_SET_KEYS).collect();
        if keys.is_empty() { Err("it has no key of RS256, ES256 or EdDSA".to_owned()) } else { Ok(Self(keys)) }
    }
}

impl SetKey {
    /// Returns the key if it verifies signatures of one of our algorithms.
    fn try_from_jwk(jwk: &Jwk) -> Option<Self> {
        let (algorithm, name) = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => (Algorithm::RS256, KeyAlgorithm::RS256),
            AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => {
                (Algorithm::ES256, KeyAlgorithm::ES256)
            }
            AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
                (Algorithm::EdDSA, KeyAlgorithm::EdDSA)
            }
            _ => return None,
        };
        let common = &jwk.common;
        let is_for_signatures = common.public_key_use.as_ref().is_none_or(|usage| *usage == PublicKeyUse::Signature);
        let verifies = common.key_operations.as_ref().is_none_or(|uses| uses.contains(&KeyOperations::Verify));
        let is_of_algorithm = common.key_algorithm.is_none_or(|algorithm| algorithm == name);
        let key = decoding_key(jwk).ok().filter(|_| is_for_signatures && verifies && is_of_algorithm)?;
        Some(Self { kid: common.key_id.clone(), algorithm, key })
    }
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::{EncodingKey, Header, encode};
    use serde_json::json;

    use super::*;

    const FAR_FUTURE: i64 = 4_000_000_000;

    /// RFC 8037, appendix A: a key and its public part; and another public key.
    const PEM: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n\
        -----END PRIVATE KEY-----\n";
    const PUBLIC: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
    const OTHER: &str = "GZ9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE";

    fn jwk(kid: Option<&str>, x: &str) -> Value {
        json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": x, "use": "sig", "alg": "EdDSA"})
    }

    fn set(keys: &[Value]) -> KeySet {
        KeySet::parse(json!({ "keys": keys }).to_string().as_bytes()).expect("a set")
    }

    fn token(kid: Option<&str>, changes: &Value) -> String {
        let mut claims = json!({"sub": "ada", "exp": FAR_FUTURE, "iss": "https://id.example", "aud": "shop"});
        let changes = changes.as_object().expect("claims").clone();
        claims.as_object_mut().expect("claims").extend(changes);
        let header = Header { kid: kid.map(str::to_owned), ..Header::new(Algorithm::EdDSA) };
        encode(&header, &claims, &EncodingKey::from_ed_pem(PEM.as_bytes()).expect("a key")).expect("a token")
    }

    fn verifier() -> KeySetVerifier {
        KeySetVerifier::new("RS256 EdDSA", "https://id.example", "shop").expect("algorithms")
    }

    const FORGED: KeySetError = KeySetError::Token(TokenError::Forged);

    #[test]
    fn a_token_is_verified_by_the_key_that_it_names() {
        let keys = set(&[jwk(Some("new"), OTHER), jwk(Some("old"), PUBLIC)]);
        let verify = |kid| verifier().verify(&token(kid, &json!({})), &keys);
        assert_eq!(verify(Some("old")).expect("verified").sub.as_str(), "ada");
        assert_eq!(verify(None), Err(FORGED), "it may be any of them");
        for keys in [[jwk(Some("a"), PUBLIC), jwk(None, OTHER)], [jwk(None, OTHER), jwk(None, PUBLIC)]] {
            let is_nameless = keys[1]["kid"].is_null() && keys[0]["kid"].is_null();
            assert_eq!(verifier().verify(&token(None, &json!({})), &set(&keys)).is_ok(), is_nameless, "{keys:?}");
        }
        assert!(verifier().verify(&token(None, &json!({})), &set(&[jwk(Some("a"), PUBLIC)])).is_ok(), "the only one");
        // A newer set may have another key under this name.
        for unknown in ["new", "newest"] {
            assert_eq!(verify(Some(unknown)), Err(KeySetError::UnknownKey { issued_at: 0 }));
        }
        let newest = |iat: Value| verifier().verify(&token(Some("newest"), &json!({ "iat": iat })), &keys);
        assert_eq!(newest(json!(7.5)), Err(KeySetError::UnknownKey { issued_at: 7 }));
        for unreadable in [json!("7"), json!([7]), json!({}), json!(null), json!(-7)] {
            assert_eq!(newest(unreadable), Err(KeySetError::UnknownKey { issued_at: 0 }));
        }
        assert_eq!(newest(json!(3_999_999_999_u32)), Err(FORGED), "issued in the future");
    }

    #[test]
    fn an_expired_token_of_a_key_that_is_gone_needs_no_newer_set() {
        let keys = set(&[jwk(Some("new"), PUBLIC)]);
        let expired = KeySetError::Token(TokenError::Expired);
        assert_eq!(verifier().verify(&token(Some("old"), &json!({"exp": 1})), &keys), Err(expired));
        assert_eq!(verifier().verify(&token(Some("new"), &json!({"exp": 1})), &keys), Err(expired));
        let fraction = |exp: f64| verifier().verify(&token(Some("old"), &json!({"exp": exp})), &keys);
        assert_eq!(fraction(1.5), Err(expired));
        assert_eq!(fraction(4e9 + 0.5), Err(KeySetError::UnknownKey { issued_at: 0 }));
    }

    #[test]
    fn only_keys_that_verify_signatures_of_our_algorithms_are_used() {
        let with = |name: &str, value: Value| {
            let mut key = jwk(Some("a"), PUBLIC);
            key[name] = value;
            key
        };
        let unusable = [
            with("use", json!("enc")),
            with("alg", json!("ES256")),
            with("x", json!("short")),
            with("x", json!("AA")),
            with("key_ops", json!(["encrypt"])),
            json!({"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0", "kid": "a"}),
            json!({"kty": "AKP", "alg": "ML-DSA-44", "pub": "AA", "kid": "a"}),
            json!("noise"),
        ];
        for key in &unusable {
            let alone = KeySet::parse(json!({"keys": [key]}).to_string().as_bytes());
            let is_used = alone.is_ok_and(|keys| verifier().verify(&token(Some("a"), &json!({})), &keys).is_ok());
            assert!(!is_used, "{key}");
        }
        let keys = set(&[&unusable[..], &[jwk(Some("a"), PUBLIC)]].concat());
        assert!(verifier().verify(&token(Some("a"), &json!({})), &keys).is_ok(), "beside unusable keys");
        for text in ["", "<html>", "[]", r#"{"keys":[]}"#, r#"{"keys":7}"#] {
            assert!(KeySet::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
