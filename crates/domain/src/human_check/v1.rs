//! ALTCHA 1, for old widgets: the solution is the number for which SHA-256(salt + number) equals the challenge.

use hmac::{Hmac, Mac};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::{CheckError, CheckRecord, Key};
use crate::time::Millis;

/// Largest number of a challenge at difficulty 1. The number to find is at least half of it.
pub const BASE_MAX_NUMBER: u64 = 20_000;

const ALGORITHM: &str = "SHA-256";

/// A challenge as issued to a widget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "AltchaChallengeV1")]
pub struct Challenge {
    #[schemars(extend("const" = ALGORITHM))]
    algorithm: &'static str,
    /// Hexadecimal.
    challenge: String,
    /// The largest number to try.
    #[schemars(range(min = 1))]
    maxnumber: u64,
    /// Contains `expires`, in seconds since 1970.
    salt: String,
    signature: String,
}

/// The solution as a widget returns it: the challenge with its number.
#[derive(Debug, Clone, Deserialize)]
pub struct Payload {
    algorithm: String,
    challenge: String,
    number: u64,
    salt: String,
    signature: String,
}

pub(super) fn issue(key: &Key, binding: &str, difficulty: i64, random: u128, expires_at: Millis) -> Challenge {
    let maxnumber = BASE_MAX_NUMBER * difficulty.unsigned_abs();
    let half = maxnumber / 2;
    let number = half + u64::try_from(random % u128::from(half)).unwrap_or_default();
    // The random part of the salt is a separate hash, because it must not reveal the number. The salt ends with `&`:
    // otherwise digits could be moved from the number into the salt's last parameter.
    let nonce = &hex::encode(Sha256::digest(random.to_be_bytes()))[..24];
    let salt = format!("{nonce}?expires={}&for={binding}&", expires_at.0 / 1000);
    let challenge = hash(&salt, number);
    Challenge { algorithm: ALGORITHM, signature: sign(key, &challenge), challenge, maxnumber, salt }
}

pub(super) fn verify(key: &Key, payload: &Payload, binding: &str, now: Millis) -> Result<CheckRecord, CheckError> {
    let Payload { algorithm, challenge, number, salt, signature } = payload;
    let is_signed = signature.as_bytes().ct_eq(sign(key, challenge).as_bytes());
    if algorithm != ALGORITHM || !bool::from(is_signed) {
        return Err(CheckError::Forged);
    }
    // The signature proves the challenge only. The salt is trusted once its hash with the number equals the challenge.
    let parameters = salt.strip_suffix('&').and_then(|salt| salt.split_once('?')).map(|(_, parameters)| parameters);
    let parameter = |name: &str| {
        parameters.unwrap_or_default().split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    };
    let seconds: Option<i64> = parameter("expires").and_then(|text| text.parse().ok());
    let expires_at = Millis(seconds.unwrap_or_default().saturating_mul(1000));
    let record = CheckRecord { id: challenge.clone(), expires_at };
    if hash(salt, *number) != *challenge {
        // The salt does not belong to the challenge, so its expiry is not trusted: record the challenge as used for the
        // longest time that it can be valid.
        let expires_at = now.plus(super::LIFETIME_MS);
        return Err(CheckError::Unsolved(CheckRecord { expires_at, ..record }));
    }
    if parameter("for") != Some(binding) {
        Err(CheckError::Forged)
    } else if expires_at <= now {
        Err(CheckError::Expired)
    } else {
        Ok(record)
    }
}

fn hash(salt: &str, number: u64) -> String {
    hex::encode(Sha256::digest(format!("{salt}{number}")))
}

fn sign(key: &Key, challenge: &str) -> String {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key.altcha_secret.as_bytes()) else { return String::new() };
    mac.update(challenge.as_bytes());
    hex::encode(mac.finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use base64::{Engine, prelude::BASE64_STANDARD};
    use serde_json::{Value, json};

    use super::super::{CheckKeys, LIFETIME_MS, Subject};
    use super::*;
    use crate::ids::{ActivityId, UserId};

    const SECRET: &str = "kX9v2mQ7Lr4tY8wZ1nB6cD3fG5hJ0pS-";
    const NOW: Millis = Millis(1_000_000_000_000);

    fn solved() -> (CheckKeys, ActivityId, UserId, Value) {
        let keys = CheckKeys::new(SECRET);
        let (activity, user) = (ActivityId::parse("demo").expect("id"), UserId::parse("ada").expect("id"));
        let challenge = keys.issue_v1(Subject { activity: &activity, user: &user }, 1, 7, NOW).expect("a challenge");
        assert!(challenge.salt.ends_with('&'));
        let number = (0..=challenge.maxnumber).find(|n| hash(&challenge.salt, *n) == challenge.challenge);
        let mut payload = json!(challenge);
        payload["number"] = json!(number.expect("a number"));
        (keys, activity, user, payload)
    }

    fn text(payload: &Value) -> String {
        BASE64_STANDARD.encode(payload.to_string())
    }

    #[test]
    fn a_solved_challenge_is_valid_only_for_its_user_activity_and_lifetime() {
        let (keys, activity, user, payload) = solved();
        let subject = Subject { activity: &activity, user: &user };
        assert_eq!(keys.verify_altcha(&text(&payload), subject, NOW).expect("a proof").id, payload["challenge"]);
        let eve = UserId::parse("eve").expect("id");
        let forged = Err(CheckError::Forged);
        assert_eq!(keys.verify_altcha(&text(&payload), Subject { user: &eve, ..subject }, NOW), forged);
        let other = ActivityId::parse("other").expect("id");
        assert_eq!(keys.verify_altcha(&text(&payload), Subject { activity: &other, ..subject }, NOW), forged);
        assert_eq!(keys.verify_altcha(&text(&payload), subject, NOW.plus(LIFETIME_MS)), Err(CheckError::Expired));
    }

    #[test]
    fn a_payload_with_a_changed_member_is_refused() {
        let (keys, activity, user, good) = solved();
        let subject = Subject { activity: &activity, user: &user };
        let salt = good["salt"].as_str().expect("salt");
        for (member, value) in [
            ("number", json!(0)),
            ("number", json!(-1)),
            ("algorithm", json!("SHA-1")),
            ("signature", json!("")),
            ("challenge", json!("00".repeat(32))),
            ("salt", json!(salt.replace("expires=1", "expires=9"))),
            ("salt", json!(salt.trim_end_matches('&'))),
            ("salt", json!("")),
        ] {
            let mut wrong = good.clone();
            wrong[member] = value;
            assert!(keys.verify_altcha(&text(&wrong), subject, NOW).is_err(), "{wrong}");
        }
    }
}
