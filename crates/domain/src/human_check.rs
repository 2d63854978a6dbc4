//! Human checks (B5): proofs of work and picture puzzles, bound to a user and a sale, each good for one ticket.
//!
//! Nothing is stored for a check that nobody solves: what is asked is signed, and a puzzle's picture and answer are
//! computed from a keyed hash of its token. Only what was used is remembered, by [`Proof::id`].

pub mod v1;
pub mod v2;

mod puzzle;

use serde::Deserialize;

pub use self::puzzle::{Puzzle, PuzzleKind};
use crate::{
    ids::{ActivityId, UserId},
    signer::Signer,
    time::Millis,
};

/// How long a check may be solved, in milliseconds.
pub const LIFETIME_MS: i64 = 5 * 60 * 1000;

/// The longest payload of a widget that is decoded, in bytes.
pub const MAX_PAYLOAD_BYTES: usize = 2_048;

/// By how much demand can raise the cost of a proof of work.
pub const MAX_DIFFICULTY: i64 = 8;

/// Who is checked, and for which sale.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The sale.
    pub activity: &'a ActivityId,
    /// The user.
    pub user: &'a UserId,
}

/// A check that was passed: it counts once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// What to remember, so that it is not used again.
    pub id: String,
    /// Until when.
    pub expires_at: Millis,
}

/// Why a check was not passed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// Not one of ours, or for somebody else.
    #[error("The check is not one that was given to you for this sale. Ask for a new one.")]
    Forged,
    /// Too late.
    #[error("The check has expired. Ask for a new one.")]
    Expired,
    /// A check of ours, and a wrong answer; it must not be tried again.
    #[error("The check was not solved. Ask for a new one.")]
    Unsolved(Proof),
}

/// How dear a proof of work is: 1 when calm, up to [`DEAREST`] when many more people want a ticket than there are units.
#[must_use]
pub fn difficulty(visitors: i64, units: i64) -> i64 {
    if units < 0 { 1 } else { (visitors / units.max(1)).clamp(1, MAX_DIFFICULTY) }
}

/// The keys of all checks, from the ticket secrets: the first asks, all verify (rotation).
pub struct CheckKeys(Vec<Key>);

struct Key {
    binding_signer: Signer,
    altcha_secret: String,
    derived_key_secret: String,
    token_signer: Signer,
    seed_signer: Signer,
}

/// What a widget sent, whichever version it speaks.
#[derive(Deserialize)]
#[serde(untagged)]
enum Payload {
    V2(altcha::Payload),
    V1(v1::Payload),
}

impl CheckKeys {
    /// Reads the secrets of the variable `ticket_secret`: one, or two separated by a space, newest first.
    ///
    /// Checks have no secret of their own: who knows the ticket secret can sign tickets, and needs no checks.
    #[must_use]
    pub fn new(secrets: &str) -> Self {
        let keys = secrets.split_ascii_whitespace().filter_map(|secret| {
            Some(Key {
                binding_signer: Signer::new(secret, "stampede check binding")?,
                altcha_secret: Signer::new(secret, "stampede check altcha")?.sign(""),
                derived_key_secret: Signer::new(secret, "stampede check derived key")?.sign(""),
                token_signer: Signer::new(secret, "stampede check puzzle")?,
                seed_signer: Signer::new(secret, "stampede check seed")?,
            })
        });
        Self(keys.collect())
    }

    /// A proof of work as ALTCHA 2 asks for it, `price` times as dear as a calm one; `random` picks the work.
    #[must_use]
    pub fn issue_v2(
        &self,
        subject: Subject<'_>,
        difficulty: i64,
        random: u64,
        now: Millis,
    ) -> Option<altcha::Challenge> {
        let key = self.0.first()?;
        v2::issue(key, key.binding(subject), difficulty, random, now.plus(LIFETIME_MS))
    }

    /// The same for widgets that speak ALTCHA 1.
    #[must_use]
    pub fn issue_v1(&self, subject: Subject<'_>, difficulty: i64, random: u128, now: Millis) -> Option<v1::Challenge> {
        let key = self.0.first()?;
        Some(v1::issue(key, &key.binding(subject), difficulty, random, now.plus(LIFETIME_MS)))
    }

    /// Checks what an ALTCHA widget sent.
    ///
    /// # Errors
    /// [`CheckError`]; whatever cannot be read is forged, a widget's test mode included.
    pub fn verify_altcha(&self, payload: &str, subject: Subject<'_>, now: Millis) -> Result<Proof, CheckError> {
        use base64::{Engine, prelude::BASE64_STANDARD};
        if payload.len() > MAX_PAYLOAD_BYTES {
            return Err(CheckError::Forged);
        }
        let bytes = BASE64_STANDARD.decode(payload).map_err(|_| CheckError::Forged)?;
        match serde_json::from_slice(&bytes).map_err(|_| CheckError::Forged)? {
            Payload::V2(payload) => self.try_each_key(|key| v2::verify(key, &payload, &key.binding(subject), now)),
            Payload::V1(payload) => self.try_each_key(|key| v1::verify(key, &payload, &key.binding(subject), now)),
        }
    }

    /// A picture puzzle.
    #[must_use]
    pub fn issue_puzzle(&self, subject: Subject<'_>, kind: PuzzleKind, random: u128, now: Millis) -> Option<Puzzle> {
        Some(puzzle::issue(self.0.first()?, subject, kind, random, now.plus(LIFETIME_MS)))
    }

    /// Reads the token of a puzzle back: what was asked can be computed again from it.
    ///
    /// # Errors
    /// [`CheckError`], but never `Unsolved`: that is for whoever compares the answer.
    pub fn verify_puzzle(&self, token: &str, subject: Subject<'_>, now: Millis) -> Result<Puzzle, CheckError> {
        self.try_each_key(|key| puzzle::verify(key, token, subject, now))
    }

    /// The answer of the first key that knows what it is asked.
    fn try_each_key<T>(&self, verify: impl Fn(&Key) -> Result<T, CheckError>) -> Result<T, CheckError> {
        let mut results = self.0.iter().map(verify);
        results.find(|result| !matches!(result, Err(CheckError::Forged))).unwrap_or(Err(CheckError::Forged))
    }
}

impl Key {
    /// What ties a check to a user and a sale, and says neither's name.
    fn binding(&self, subject: Subject<'_>) -> String {
        let mut text = self.binding_signer.sign(&format!("{}.{}", subject.activity, subject.user));
        text.truncate(22);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difficulty_grows_with_demand_within_bounds() {
        assert_eq!(
            [difficulty(0, 10), difficulty(10, 10), difficulty(35, 10), difficulty(1_000_000, 10)],
            [1, 1, 3, MAX_DIFFICULTY]
        );
        assert_eq!([difficulty(100, 0), difficulty(1_000_000, -1)], [MAX_DIFFICULTY, 1]);
    }
}
