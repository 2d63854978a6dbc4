//! ALTCHA 2: find a counter whose `PBKDF2/SHA-256` key starts with a given prefix.
//!
//! The counter is chosen when the challenge is issued, so the work is bounded. The derived key is signed, so verifying
//! costs two hashes, and a flood of wrong solutions is cheap to refuse.

use std::collections::BTreeMap;

use altcha::{Challenge, CreateChallengeOptions, Payload, VerifySolutionOptions, create_challenge, verify_solution};

use super::{CheckError, CheckRecord, Key};
use crate::time::Millis;

/// PBKDF2 iterations per try: about one millisecond in the browser of a low-end phone.
pub const ITERATIONS: u32 = 1_000;

/// Maximum tries of a challenge at difficulty 1. The solution is anywhere between the first and the last: a search that
/// starts elsewhere than at the first gains nothing.
pub const BASE_MAX_COUNTER: u64 = 300;

const ALGORITHM: &str = "PBKDF2/SHA-256";

pub(super) fn issue(key: &Key, binding: String, difficulty: i64, random: u64, expires_at: Millis) -> Option<Challenge> {
    let max_counter = BASE_MAX_COUNTER * difficulty.unsigned_abs();
    let counter = 1 + random % max_counter;
    create_challenge(CreateChallengeOptions {
        algorithm: ALGORITHM.to_owned(),
        cost: ITERATIONS,
        counter: u32::try_from(counter).ok(),
        data: Some(BTreeMap::from([("for".to_owned(), binding.into())])),
        expires_at: Some(expires_at.0 / 1000),
        hmac_signature_secret: Some(key.altcha_secret.clone()),
        hmac_key_signature_secret: Some(key.derived_key_secret.clone()),
        ..Default::default()
    })
    .ok()
}

pub(super) fn verify(key: &Key, payload: &Payload, binding: &str, now: Millis) -> Result<CheckRecord, CheckError> {
    let Payload { challenge, solution } = payload;
    let parameters = &challenge.parameters;
    let options = VerifySolutionOptions {
        hmac_key_signature_secret: Some(key.derived_key_secret.clone()),
        ..VerifySolutionOptions::new(challenge, solution, key.altcha_secret.as_str())
    };
    let verification = verify_solution(options).map_err(|_| CheckError::Forged)?;
    let expires_at = Millis(parameters.expires_at.unwrap_or_default().saturating_mul(1000));
    if verification.expired || expires_at <= now {
        return Err(CheckError::Expired);
    }
    let is_bound =
        parameters.data.as_ref().and_then(|data| data.get("for")).and_then(|text| text.as_str()) == Some(binding);
    // A signed challenge always contains the signature of its derived key, so the library has compared signatures only.
    // It derives the key again for a challenge without one: work that a client must not be able to cause.
    if verification.invalid_signature != Some(false) || parameters.key_signature.is_none() || !is_bound {
        return Err(CheckError::Forged);
    }
    let record = CheckRecord { id: parameters.nonce.clone(), expires_at };
    let prefix_matches = solution.derived_key.to_ascii_lowercase().starts_with(&parameters.key_prefix);
    if verification.verified && prefix_matches { Ok(record) } else { Err(CheckError::Unsolved(record)) }
}

#[cfg(test)]
mod tests {
    use altcha::{SolveChallengeOptions, solve_challenge};
    use base64::{Engine, prelude::BASE64_STANDARD};

    use super::super::{CheckKeys, Subject};
    use super::*;
    use crate::ids::{ActivityId, UserId};

    /// Far in the future, because the library also compares with the machine's clock.
    const NOW: Millis = Millis(4_000_000_000_000);

    struct Solved {
        keys: CheckKeys,
        activity: ActivityId,
        user: UserId,
        payload: Payload,
    }

    impl Solved {
        fn new(random: u64) -> Self {
            let keys = CheckKeys::new("kX9v2mQ7Lr4tY8wZ1nB6cD3fG5hJ0pS-");
            let (activity, user) = (ActivityId::parse("demo").expect("id"), UserId::parse("张\"伟").expect("id"));
            let subject = Subject { activity: &activity, user: &user };
            let challenge = keys.issue_altcha(subject, 1, random, NOW).expect("a challenge");
            let solution = solve_challenge(SolveChallengeOptions::new(&challenge)).expect("solvable").expect("in time");
            Self { keys, activity, user, payload: Payload { challenge, solution } }
        }

        fn verify(&self, payload: &Payload) -> Result<CheckRecord, CheckError> {
            let subject = Subject { activity: &self.activity, user: &self.user };
            let json = serde_json::to_string(payload).expect("json");
            self.keys.verify_altcha(&BASE64_STANDARD.encode(json), subject, NOW)
        }
    }

    /// A robot that starts in the second half would skip a third of the work if the solution were always there.
    #[test]
    fn every_number_of_tries_is_as_likely_as_any_other() {
        let tries =
            [0, BASE_MAX_COUNTER / 2, BASE_MAX_COUNTER - 1].map(|random| Solved::new(random).payload.solution.counter);
        assert_eq!(tries, [1, 151, 300]);
    }

    #[test]
    fn a_solution_without_the_work_is_unsolved() {
        let solved = Solved::new(9);
        let prefix = &solved.payload.challenge.parameters.key_prefix;
        for derived_key in ["00".repeat(32), format!("{prefix}{}", "00".repeat(16)), "no hex".to_owned()] {
            let mut payload = solved.payload.clone();
            payload.solution.derived_key = derived_key.clone();
            let verdict = solved.verify(&payload);
            assert!(matches!(verdict, Err(CheckError::Unsolved(_))), "{derived_key}: {verdict:?}");
        }
    }

    #[test]
    fn a_challenge_without_a_signature_of_its_own_or_of_its_key_is_forged() {
        let solved = Solved::new(9);
        let changes: [fn(&mut Challenge); 2] =
            [|c| c.parameters.key_signature = None, |c| c.signature = Some(String::new())];
        for (at, change) in changes.iter().enumerate() {
            let mut payload = solved.payload.clone();
            change(&mut payload.challenge);
            assert_eq!(solved.verify(&payload), Err(CheckError::Forged), "change {at}");
        }
    }
}
