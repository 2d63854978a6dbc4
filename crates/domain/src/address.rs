//! Delivery addresses (E1): validated on input, encrypted before they are stored.
//!
//! Addresses are personal data. They never appear in debug output or in plain text in a store.

mod countries;

use std::collections::BTreeMap;

use base64::{Engine, prelude::BASE64_STANDARD_NO_PAD};
use chacha20poly1305::{
    KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{http::problem::FieldError, ids::OrderNo, signer::derive_key};

const MAX_LINE_CHARS: usize = 200;
const MAX_NAME_CHARS: usize = 40;
const MAX_LINES: usize = 20;
const NONCE_BYTES: usize = 24;

/// A delivery address: the lines of the shop's form, by name. With a `country` (ISO 3166-1 alpha-2) it has the lines `city`,
/// `state` and `postal_code` that addresses in that country need.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline, transform = Address::limit_schema)]
pub struct Address(BTreeMap<String, String>);

/// Shows nothing of the delivery address, so that it cannot reach a log.
impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Address(…)")
    }
}

impl Address {
    fn limit_schema(schema: &mut Schema) {
        schema.insert("maxProperties".to_owned(), MAX_LINES.into());
        schema.insert("propertyNames".to_owned(), json!({ "maxLength": MAX_NAME_CHARS }));
        schema.insert("additionalProperties".to_owned(), json!({ "type": "string", "maxLength": MAX_LINE_CHARS }));
        let example = json!({ "name": "Ada", "street": "1 Mill Lane", "city": "Austin", "state": "TX", "postal_code": "78701",
            "country": "US" });
        schema.insert("examples".to_owned(), json!([example]));
    }

    /// The address that a payment page asked for; `None` without any line. A line that is too long is cut.
    #[must_use]
    pub fn collected(lines: impl IntoIterator<Item = (&'static str, String)>) -> Option<Self> {
        let cut = |text: String| text.chars().take(MAX_LINE_CHARS).collect::<String>();
        let lines = lines.into_iter().filter(|(_, text)| !text.is_empty());
        let lines: BTreeMap<_, _> = lines.map(|(name, text)| (name.to_owned(), cut(text))).collect();
        (!lines.is_empty()).then_some(Self(lines))
    }

    /// Validates the member `address` of a request body.
    ///
    /// # Errors
    /// One [`FieldError`] for each invalid or missing line, or one that says that there are too many lines.
    pub fn parse(lines: &serde_json::Map<String, serde_json::Value>) -> Result<Self, Vec<FieldError>> {
        let pointer = |name: &str| format!("/address/{}", name.replace('~', "~0").replace('/', "~1"));
        if lines.len() > MAX_LINES {
            return Err(vec![FieldError::new("/address", format!("must have at most {MAX_LINES} lines"))]);
        }
        let mut errors = Vec::new();
        let mut accepted = BTreeMap::new();
        for (name, value) in lines {
            let fits = |text: &&str| text.chars().count() <= MAX_LINE_CHARS && name.chars().count() <= MAX_NAME_CHARS;
            match value.as_str().filter(fits) {
                Some(text) => drop(accepted.insert(name.clone(), text.to_owned())),
                None => {
                    let detail = format!(
                        "must be text of at most {MAX_LINE_CHARS} characters, its name of at most {MAX_NAME_CHARS}"
                    );
                    errors.push(FieldError::new(pointer(name), detail));
                }
            }
        }
        errors.extend(countries::errors(&accepted));
        if errors.is_empty() { Ok(Self(accepted)) } else { Err(errors) }
    }
}

/// Encrypts and decrypts delivery addresses with XChaCha20-Poly1305.
///
/// The nonce is random, and the order number is the associated data, so an encrypted address can be decrypted only for
/// its own order. During a key rotation there are two secrets, newest first: the newest encrypts, and each decrypts
/// what it encrypted.
pub struct AddressCipher(Vec<Key>);

struct Key {
    /// Identifies the key in a sealed text, so that [`AddressCipher::open`] finds it.
    key_id: String,
    cipher: XChaCha20Poly1305,
}

impl AddressCipher {
    /// Reads the secrets of the variable `address_key`, separated by spaces. `None` if there is none.
    #[must_use]
    pub fn new(secrets: &str) -> Option<Self> {
        let keys: Option<Vec<_>> = secrets.split_ascii_whitespace().map(Key::from_secret).collect();
        keys.filter(|keys| !keys.is_empty()).map(Self)
    }

    /// Encrypts the delivery address of an order: `<key id>.<base64 of nonce and ciphertext>`. A nonce must not be used
    /// twice.
    #[must_use]
    pub fn seal(&self, order_no: &OrderNo, address: &Address, nonce: [u8; NONCE_BYTES]) -> Option<String> {
        let key = self.0.first()?;
        let (text, order_no) = (serde_json::to_vec(address).ok()?, order_no.to_string());
        let payload = Payload { msg: &text, aad: order_no.as_bytes() };
        let sealed = key.cipher.encrypt(&XNonce::from(nonce), payload).ok()?;
        Some(format!("{}.{}", key.key_id, BASE64_STANDARD_NO_PAD.encode([&nonce[..], &sealed].concat())))
    }

    /// Decrypts a text that [`AddressCipher::seal`] returned for this order. `None` if it belongs to another order, its
    /// key is no longer configured, or it was changed.
    #[must_use]
    pub fn open(&self, order_no: &OrderNo, sealed: &str) -> Option<Address> {
        let (key_id, text) = sealed.split_once('.')?;
        let key = self.0.iter().find(|key| key.key_id == key_id)?;
        let bytes = BASE64_STANDARD_NO_PAD.decode(text).ok()?;
        let (nonce, sealed) = bytes.split_first_chunk::<NONCE_BYTES>()?;
        let order_no = order_no.to_string();
        let payload = Payload { msg: sealed, aad: order_no.as_bytes() };
        serde_json::from_slice(&key.cipher.decrypt(&XNonce::from(*nonce), payload).ok()?).ok()
    }
}

impl Key {
    fn from_secret(secret: &str) -> Option<Self> {
        let key_id = BASE64_STANDARD_NO_PAD.encode(&derive_key(secret, "stampede address key version")?[..6]);
        let cipher = XChaCha20Poly1305::new_from_slice(&derive_key(secret, "stampede address key")?).ok()?;
        Some(Self { key_id, cipher })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn order_no(text: &str) -> OrderNo {
        OrderNo::parse(text).expect("an order number")
    }

    fn parse(value: serde_json::Value) -> Result<Address, Vec<FieldError>> {
        Address::parse(value.as_object().expect("an object"))
    }

    fn address() -> Address {
        parse(json!({"name": "Ada Lovelace", "city": "London"})).expect("an address")
    }

    #[test]
    fn a_sealed_address_opens_only_for_its_order_and_key() {
        let ours = order_no("demo.01ARZ3NDEKTSV4RRFFQ69G5FAV");
        let theirs = order_no("demo.01BX5ZZKBKACTAV9WEVGEMMVRZ");
        let cipher = AddressCipher::new("a secret of some length").expect("a cipher");
        let sealed = cipher.seal(&ours, &address(), [7; 24]).expect("sealed");
        assert_eq!(cipher.open(&ours, &sealed), Some(address()));
        assert_ne!(cipher.seal(&ours, &address(), [8; 24]).as_ref(), Some(&sealed));
        assert_eq!(cipher.open(&theirs, &sealed), None, "bound to its order");
        assert_eq!(AddressCipher::new("another secret").expect("a cipher").open(&ours, &sealed), None);
        let at = sealed.len() - 9;
        let other = if &sealed[at..=at] == "A" { "B" } else { "A" };
        assert_eq!(cipher.open(&ours, &format!("{}{other}{}", &sealed[..at], &sealed[at + 1..])), None, "one bit off");
        for nonsense in ["", ".", "x", "x.y", &sealed[..sealed.len() - 4]] {
            assert_eq!(cipher.open(&ours, nonsense), None, "{nonsense:?}");
        }
    }

    #[test]
    fn debug_output_does_not_show_the_address() {
        assert_eq!(format!("{:?}", address()), "Address(…)");
    }

    #[test]
    fn a_key_can_be_rotated() {
        let ours = order_no("demo.01ARZ3NDEKTSV4RRFFQ69G5FAV");
        let [old, new, both] = ["old-secret", "new-secret", "new-secret old-secret"].map(|secrets| {
            let cipher = AddressCipher::new(secrets).expect("a cipher");
            let sealed = cipher.seal(&ours, &address(), [1; 24]).expect("sealed");
            (cipher, sealed)
        });
        assert_eq!(both.0.open(&ours, &old.1), Some(address()));
        assert_eq!(both.0.open(&ours, &new.1), Some(address()));
        assert_eq!(new.0.open(&ours, &both.1), Some(address()), "the newest key seals");
        assert_eq!(new.0.open(&ours, &old.1), None);
    }

    #[test]
    fn each_invalid_line_is_reported_with_its_pointer() {
        for (wrong, pointer) in [
            (json!({"a/b": "x".repeat(201)}), "/address/a~1b"),
            (json!({"x".repeat(41): ""}), &format!("/address/{}", "x".repeat(41))),
        ] {
            assert_eq!(parse(wrong).expect_err("wrong")[0].pointer, pointer);
        }
        let many: serde_json::Map<_, _> = (0..2_000).map(|n| (n.to_string(), json!(7))).collect();
        let errors = Address::parse(&many).expect_err("too many");
        assert_eq!((errors.len(), errors[0].pointer.as_str()), (1, "/address"), "an answer is not longer than a body");
        assert!(parse(json!({"name": "x".repeat(200)})).is_ok());
    }
}
