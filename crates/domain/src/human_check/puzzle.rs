//! Tokens of picture puzzles.
//!
//! Picture and answer are derived from the token and a secret, so nothing is stored and the token does not reveal the
//! answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CheckError, CheckRecord, Key, Subject};
use crate::time::Millis;

crate::words! {
    /// Kind of a puzzle.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum PuzzleKind {
        /// Slide a piece into its gap.
        #[default]
        Slider = "slider",
        /// Solve the arithmetic problem in a picture.
        Sum = "sum",
    }
}

/// An issued puzzle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Puzzle {
    /// The token, which the client sends back with its answer.
    pub token: String,
    /// The kind.
    pub kind: PuzzleKind,
    /// Seed of picture and answer.
    pub seed: u64,
    /// To be recorded as used after an answer, correct or not.
    pub record: CheckRecord,
}

pub(super) fn issue(key: &Key, subject: Subject<'_>, kind: PuzzleKind, random: u128, expires_at: Millis) -> Puzzle {
    let body = format!("{}.{random:032x}.{}", kind.as_str(), expires_at.0);
    let text = signed_text(&body, subject);
    let token = format!("{body}.{}", key.token_signer.sign(&text));
    Puzzle {
        token,
        kind,
        seed: key.seed_signer.hash_u64(&text),
        record: CheckRecord { id: format!("{random:032x}"), expires_at },
    }
}

pub(super) fn verify(key: &Key, token: &str, subject: Subject<'_>, now: Millis) -> Result<Puzzle, CheckError> {
    let parse = || {
        let (body, signature) = token.rsplit_once('.')?;
        let text = signed_text(body, subject);
        let [kind, id, expires_at]: [&str; 3] = body.split('.').collect::<Vec<_>>().try_into().ok()?;
        let kind = PuzzleKind::parse(kind)?;
        let record = CheckRecord { id: id.to_owned(), expires_at: Millis(expires_at.parse().ok()?) };
        let puzzle = Puzzle { token: token.to_owned(), kind, seed: key.seed_signer.hash_u64(&text), record };
        key.token_signer.verify(&text, signature).then_some(puzzle)
    };
    let puzzle = parse().ok_or(CheckError::Forged)?;
    if puzzle.record.expires_at <= now { Err(CheckError::Expired) } else { Ok(puzzle) }
}

fn signed_text(body: &str, subject: Subject<'_>) -> String {
    format!("{body} {} {}", subject.activity, subject.user)
}
