//! JSON Web Tokens of signed-in users (B1), verified with a pinned algorithm.

use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, errors::ErrorKind, jwk::Jwk};
use serde::{Deserialize, Serialize};

use crate::ids::UserId;

/// Tolerated clock difference, in seconds.
const LEEWAY_SECONDS: u64 = 60;

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
}

/// Why a token is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenError {
    /// Malformed or too long, signed with another algorithm or key, for another issuer or audience, not valid yet
    /// (`nbf`), or a required claim is missing or invalid.
    Forged,
    /// The signature is valid, but the token has expired.
    Expired,
}

/// Verifies tokens against one key, algorithm, issuer and audience.
pub struct Verifier {
    key: DecodingKey,
    validation: Validation,
}

impl Verifier {
    /// Creates a verifier from the variables `jwt_algorithm`, `jwt_key` (PEM, JWK, or a secret for HS256), `jwt_issuer`
    /// and `jwt_audience`.
    ///
    /// # Errors
    /// A message for the operator that names the wrong variable.
    pub fn new(algorithm: &str, key: &str, issuer: &str, audience: &str) -> Result<Self, String> {
        let invalid_key = |error: jsonwebtoken::errors::Error| {
            format!("the variable jwt_key is not a {algorithm} key as PEM or JWK: {error}")
        };
        let jwk: Option<Jwk> = serde_json::from_str(key).ok();
        let (algorithm, key) = match (algorithm, jwk) {
            ("RS256", Some(jwk)) => (Algorithm::RS256, DecodingKey::from_jwk(&jwk).map_err(invalid_key)?),
            ("ES256", Some(jwk)) => (Algorithm::ES256, DecodingKey::from_jwk(&jwk).map_err(invalid_key)?),
            ("EdDSA", Some(jwk)) => (Algorithm::EdDSA, DecodingKey::from_jwk(&jwk).map_err(invalid_key)?),
            ("RS256", None) => (Algorithm::RS256, DecodingKey::from_rsa_pem(key.as_bytes()).map_err(invalid_key)?),
            ("ES256", None) => (Algorithm::ES256, DecodingKey::from_ec_pem(key.as_bytes()).map_err(invalid_key)?),
            ("EdDSA", None) => (Algorithm::EdDSA, DecodingKey::from_ed_pem(key.as_bytes()).map_err(invalid_key)?),
            ("HS256", _) => match crate::secret::weakness(key) {
                Some(weakness) => return Err(format!("the variable jwt_key {weakness}: use 32 random bytes or more")),
                None if key.contains("-----BEGIN") => {
                    return Err("the variable jwt_key is a public key, but jwt_algorithm is HS256".to_owned());
                }
                None => (Algorithm::HS256, DecodingKey::from_secret(key.as_bytes())),
            },
            (other, _) => {
                return Err(format!("the variable jwt_algorithm is {other:?}: use RS256, ES256, EdDSA or HS256"));
            }
        };
        let mut validation = Validation::new(algorithm);
        validation.leeway = LEEWAY_SECONDS;
        validation.set_issuer(&[issuer]);
        validation.set_audience(&[audience]);
        validation.set_required_spec_claims(&["exp", "sub", "iss", "aud"]);
        validation.validate_nbf = true;
        Ok(Self { key, validation })
    }

    /// Returns the claims of a token that is valid now.
    ///
    /// # Errors
    /// See [`TokenError`]. Only a token with a valid signature is reported as expired.
    pub fn verify(&self, token: &str) -> Result<Claims, TokenError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(TokenError::Forged);
        }
        let decoded = decode::<Claims>(token, &self.key, &self.validation);
        decoded.map(|data| data.claims).map_err(|error| match error.kind() {
            ErrorKind::ExpiredSignature => TokenError::Expired,
            _ => TokenError::Forged,
        })
    }
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
        assert!(Verifier::new("none", SECRET, "i", "a").is_err());
    }
}
