//! Human checks (B5): proofs of work and picture puzzles, bound to a user and a sale, each good for one ticket.
//!
//! Nothing is stored for a check that nobody solves: what is asked is signed, and a puzzle's picture and answer are
//! computed from a keyed hash of its token. Only what was used is remembered, by [`Proof::id`].

pub mod v1;
pub mod v2;

mod puzzle;

use serde::Deserialize;

pub use self::puzzle::{Kind, Puzzle};
use crate::{
    ids::{ActivityId, UserId},
    signed::Signer,
    time::Millis,
};

/// How long a check may be solved, in milliseconds.
pub const LIFETIME_MS: i64 = 5 * 60 * 1000;

/// The longest payload of a widget that is decoded, in bytes.
pub const LONGEST: usize = 2_048;

/// By how much demand can raise the cost of a proof of work.
pub const DEAREST: i64 = 8;

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
pub fn price(visitors: i64, units: i64) -> i64 {
    if units < 0 { 1 } else { (visitors / units.max(1)).clamp(1, DEAREST) }
}

/// The keys of all checks, from the ticket secrets: the first asks, all verify (rotation).
pub struct CheckKeys(Vec<Key>);

struct Key {
    binding: Signer,
    altcha: String,
    derived: String,
    token: Signer,
    seed: Signer,
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
                binding: Signer::new(secret, "stampede check binding")?,
                altcha: Signer::new(secret, "stampede check altcha")?.sign(""),
                derived: Signer::new(secret, "stampede check derived key")?.sign(""),
                token: Signer::new(secret, "stampede check puzzle")?,
                seed: Signer::new(secret, "stampede check seed")?,
            })
        });
        Self(keys.collect())
    }

    /// A proof of work as ALTCHA 2 asks for it, `price` times as dear as a calm one; `random` picks the work.
    #[must_use]
    pub fn ask_v2(&self, to: Subject<'_>, price: i64, random: u64, now: Millis) -> Option<altcha::Challenge> {
        let key = self.0.first()?;
        v2::ask(key, key.bind(to), price, random, now.plus(LIFETIME_MS))
    }

    /// The same for widgets that speak ALTCHA 1.
    #[must_use]
    pub fn ask_v1(&self, to: Subject<'_>, price: i64, random: u128, now: Millis) -> Option<v1::Challenge> {
        let key = self.0.first()?;
        Some(v1::ask(key, &key.bind(to), price, random, now.plus(LIFETIME_MS)))
    }

    /// Checks what an ALTCHA widget sent.
    ///
    /// # Errors
    /// [`CheckError`]; whatever cannot be read is forged, a widget's test mode included.
    pub fn verify_altcha(&self, text: &str, of: Subject<'_>, now: Millis) -> Result<Proof, CheckError> {
        use base64::{Engine, prelude::BASE64_STANDARD};
        if text.len() > LONGEST {
            return Err(CheckError::Forged);
        }
        let bytes = BASE64_STANDARD.decode(text).map_err(|_| CheckError::Forged)?;
        match serde_json::from_slice(&bytes).map_err(|_| CheckError::Forged)? {
            Payload::V2(payload) => self.any(|key| v2::verify(key, &payload, &key.bind(of), now)),
            Payload::V1(payload) => self.any(|key| v1::verify(key, &payload, &key.bind(of), now)),
        }
    }

    /// A picture puzzle.
    #[must_use]
    pub fn ask_puzzle(&self, to: Subject<'_>, kind: Kind, random: u128, now: Millis) -> Option<Puzzle> {
        Some(puzzle::ask(self.0.first()?, to, kind, random, now.plus(LIFETIME_MS)))
    }

    /// Reads the token of a puzzle back: what was asked can be computed again from it.
    ///
    /// # Errors
    /// [`CheckError`], but never `Unsolved`: that is for whoever compares the answer.
    pub fn open_puzzle(&self, token: &str, of: Subject<'_>, now: Millis) -> Result<Puzzle, CheckError> {
        self.any(|key| puzzle::open(key, token, of, now))
    }

    /// The answer of the first key that knows what it is asked.
    fn any<T>(&self, verify: impl Fn(&Key) -> Result<T, CheckError>) -> Result<T, CheckError> {
        let mut verdicts = self.0.iter().map(verify);
        verdicts.find(|verdict| !matches!(verdict, Err(CheckError::Forged))).unwrap_or(Err(CheckError::Forged))
    }
}

impl Key {
    /// What ties a check to a user and a sale, and says neither's name.
    fn bind(&self, to: Subject<'_>) -> String {
        let mut text = self.binding.sign(&format!("{}.{}", to.activity, to.user));
        text.truncate(22);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demand_raises_the_price_within_bounds() {
        assert_eq!([price(0, 10), price(10, 10), price(35, 10), price(1_000_000, 10)], [1, 1, 3, DEAREST]);
        assert_eq!([price(100, 0), price(1_000_000, -1)], [DEAREST, 1]);
    }
}
