//! Human checks (B5): proofs of work and picture puzzles, valid for one user, one activity and one ticket.
//!
//! Issuing a check stores nothing: a proof-of-work challenge is signed, and a puzzle's picture and answer are derived
//! from a keyed hash of its token. Only a used check is recorded, by [`CheckRecord::id`], so that it cannot be used
//! again.

pub mod altcha;

mod puzzle;

pub use self::puzzle::{Puzzle, PuzzleKind};
use crate::{
    ids::{ActivityId, UserId},
    secret,
    signer::Signer,
    time::Millis,
};

/// Lifetime of a check, in milliseconds.
pub const LIFETIME_MS: i64 = 5 * 60 * 1000;

/// Maximum length of a widget's payload, in bytes; longer ones are refused without decoding.
pub const MAX_PAYLOAD_BYTES: usize = 2_048;

/// Maximum factor by which demand raises the cost of a proof of work.
pub const MAX_DIFFICULTY: i64 = 8;

/// The user who must solve a check, and the activity it is for.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The activity.
    pub activity: &'a ActivityId,
    /// The user.
    pub user: &'a UserId,
}

/// Id and expiry of a genuine check, with which it is recorded as used, solved or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckRecord {
    /// The id to record.
    pub id: String,
    /// When the record may be dropped: from then on the check itself has expired.
    pub expires_at: Millis,
}

/// Why a check is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckError {
    /// Malformed or too long, its signature is invalid, or it was issued for another user or activity.
    Forged,
    /// Past its lifetime.
    Expired,
    /// A genuine check with a wrong answer. Record it as used: it must not be tried again.
    Unsolved(CheckRecord),
}

/// Cost factor of a proof of work: `least` while there are fewer visitors than twice the units, up to
/// [`MAX_DIFFICULTY`]. `visitors` is the number of users who asked for a challenge or a ticket. The operator sets the
/// least, because robots come first, when demand is still low.
///
/// Negative `units` mean unlimited stock: the factor is the least.
#[must_use]
pub fn difficulty(visitors: i64, units: i64, least: i64) -> i64 {
    let least = least.clamp(1, MAX_DIFFICULTY);
    if units < 0 { least } else { (visitors / units.max(1)).clamp(least, MAX_DIFFICULTY) }
}

/// The keys of all checks, derived from the ticket secrets: the first one signs, all of them verify (rotation).
pub struct CheckKeys(Vec<Key>);

struct Key {
    binding_signer: Signer,
    altcha_secret: String,
    derived_key_secret: String,
    token_signer: Signer,
    seed_signer: Signer,
}

impl CheckKeys {
    /// Reads the secrets of the variable `ticket_secret`: one, or two separated by a space, newest first.
    ///
    /// Checks have no secret of their own: a holder of the ticket secret can sign tickets, and needs no checks.
    #[must_use]
    pub fn new(secrets: &str) -> Self {
        let keys = secret::active(secrets).filter_map(|secret| {
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

    /// Issues an ALTCHA 2 proof of work that costs `difficulty` times the base cost. `random` selects the solution.
    ///
    /// `None` if there is no secret.
    #[must_use]
    pub fn issue_altcha(
        &self,
        subject: Subject<'_>,
        difficulty: i64,
        random: u64,
        now: Millis,
    ) -> Option<::altcha::Challenge> {
        let key = self.0.first()?;
        altcha::issue(key, key.binding(subject), difficulty, random, now.plus(LIFETIME_MS))
    }

    /// Verifies the payload of an ALTCHA widget.
    ///
    /// # Errors
    /// See [`CheckError`]. A malformed payload, or one of the widget's test mode, is [`CheckError::Forged`].
    pub fn verify_altcha(&self, payload: &str, subject: Subject<'_>, now: Millis) -> Result<CheckRecord, CheckError> {
        use base64::{Engine, prelude::BASE64_STANDARD};
        if payload.len() > MAX_PAYLOAD_BYTES {
            return Err(CheckError::Forged);
        }
        let bytes = BASE64_STANDARD.decode(payload).map_err(|_| CheckError::Forged)?;
        let payload: ::altcha::Payload = serde_json::from_slice(&bytes).map_err(|_| CheckError::Forged)?;
        self.try_each_key(|key| altcha::verify(key, &payload, &key.binding(subject), now))
    }

    /// Issues a picture puzzle. `None` if there is no secret.
    #[must_use]
    pub fn issue_puzzle(&self, subject: Subject<'_>, kind: PuzzleKind, random: u128, now: Millis) -> Option<Puzzle> {
        Some(puzzle::issue(self.0.first()?, subject, kind, random, now.plus(LIFETIME_MS)))
    }

    /// Verifies a puzzle's token and recomputes the puzzle.
    ///
    /// # Errors
    /// [`CheckError::Forged`] or [`CheckError::Expired`]. Comparing the answer is up to the caller.
    pub fn verify_puzzle(&self, token: &str, subject: Subject<'_>, now: Millis) -> Result<Puzzle, CheckError> {
        self.try_each_key(|key| puzzle::verify(key, token, subject, now))
    }

    /// Returns the first result that is not [`CheckError::Forged`]: that of the key that signed the check.
    fn try_each_key<T>(&self, verify: impl Fn(&Key) -> Result<T, CheckError>) -> Result<T, CheckError> {
        let mut results = self.0.iter().map(verify);
        results.find(|result| !matches!(result, Err(CheckError::Forged))).unwrap_or(Err(CheckError::Forged))
    }
}

impl Key {
    /// A keyed hash that binds a check to its user and activity without revealing either.
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
            [difficulty(0, 10, 1), difficulty(10, 10, 1), difficulty(35, 10, 1), difficulty(1_000_000, 10, 1)],
            [1, 1, 3, MAX_DIFFICULTY]
        );
        assert_eq!([difficulty(100, 0, 1), difficulty(1_000_000, -1, 1)], [MAX_DIFFICULTY, 1]);
        assert_eq!([difficulty(0, 10, 4), difficulty(70, 10, 4), difficulty(0, 10, 99)], [4, 7, MAX_DIFFICULTY]);
    }
}
