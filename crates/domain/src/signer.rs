//! HMAC-SHA256 signatures of text, with a derived key for each purpose.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use hkdf::Hkdf;
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// Derives a key from `secret` for one `purpose`, with HKDF-SHA256 (RFC 5869). Never `None` in practice.
pub(crate) fn derive_key(secret: &str, purpose: &str) -> Option<[u8; 32]> {
    let mut key = [0; 32];
    Hkdf::<Sha256>::new(None, secret.as_bytes()).expand(purpose.as_bytes(), &mut key).ok()?;
    Some(key)
}

/// An HMAC-SHA256 key, ready for use.
#[derive(Clone)]
pub struct Signer(Hmac<Sha256>);

impl Signer {
    /// Derives a key from `secret` for one `purpose`: a signature made for one purpose is invalid for every other.
    ///
    /// Never `None` in practice, because HMAC accepts keys of any length.
    #[must_use]
    pub fn new(secret: &str, purpose: &str) -> Option<Self> {
        Hmac::new_from_slice(&derive_key(secret, purpose)?).ok().map(Self)
    }

    /// The signature of `text`: base64url without padding, 43 characters.
    #[must_use]
    pub fn sign(&self, text: &str) -> String {
        let mut mac = self.0.clone();
        mac.update(text.as_bytes());
        BASE64_URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes())
    }

    /// The first 64 bits of the HMAC of `text`, as a number.
    #[must_use]
    pub fn hash_u64(&self, text: &str) -> u64 {
        let mut mac = self.0.clone();
        mac.update(text.as_bytes());
        mac.finalize().into_bytes().iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    /// Whether `signature` is the signature of `text`; compares in constant time.
    #[must_use]
    pub fn verify(&self, text: &str, signature: &str) -> bool {
        let Ok(bytes) = BASE64_URL_SAFE_NO_PAD.decode(signature) else { return false };
        let mut mac = self.0.clone();
        mac.update(text.as_bytes());
        mac.verify_slice(&bytes).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_valid_only_for_its_text_key_and_purpose() {
        let signer = Signer::new("a secret", "ticket").expect("signer");
        let signature = signer.sign("hello");
        assert!(signer.verify("hello", &signature));
        assert!(!signer.verify("hello!", &signature));
        assert!(!signer.verify("hello", &signature[..8]));
        assert!(!signer.verify("hello", ""));
        assert!(!Signer::new("another", "ticket").expect("signer").verify("hello", &signature));
        assert!(!Signer::new("a secret", "gate").expect("signer").verify("hello", &signature));
    }

    /// The key was computed with Python's `hmac`. With another one, tickets, order numbers and addresses of an earlier
    /// build cannot be read.
    #[test]
    fn a_secret_and_a_purpose_always_give_the_same_key() {
        let key = derive_key("secret", "purpose").expect("a key");
        assert_eq!(hex::encode(key), "eced7de97c6f9dd8c7c842b5a550832f39290b6fa8c17658b4eea5226819c4c0");
    }
}
