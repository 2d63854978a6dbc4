//! Tokens of picture puzzles: what a picture shows is computed from its token and a secret, so that nothing is stored
//! and the token says nothing of the answer.

use serde::{Deserialize, Serialize};

use super::{CheckError, Key, Proof, Subject};
use crate::time::Millis;

/// Which puzzle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A piece to slide into its gap.
    #[default]
    Slider,
    /// A sum in a picture.
    Sum,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Kind::Slider => "slider",
            Kind::Sum => "sum",
        }
    }
}

/// A puzzle that was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Puzzle {
    /// What the answer must carry.
    pub token: String,
    /// Which puzzle.
    pub kind: Kind,
    /// What picture and answer are made from.
    pub seed: u64,
    /// What to remember once it was answered, rightly or wrongly.
    pub proof: Proof,
}

pub(super) fn ask(key: &Key, to: Subject<'_>, kind: Kind, random: u128, expires_at: Millis) -> Puzzle {
    let body = format!("{}.{random:032x}.{}", kind.as_str(), expires_at.0);
    let text = bound(&body, to);
    let token = format!("{body}.{}", key.token.sign(&text));
    Puzzle { token, kind, seed: seed(key, &text), proof: Proof { id: format!("{random:032x}"), expires_at } }
}

pub(super) fn open(key: &Key, token: &str, of: Subject<'_>, now: Millis) -> Result<Puzzle, CheckError> {
    let read = || {
        let (body, signature) = token.rsplit_once('.')?;
        let text = bound(body, of);
        let [kind, id, expires_at]: [&str; 3] = body.split('.').collect::<Vec<_>>().try_into().ok()?;
        let kind = [Kind::Slider, Kind::Sum].into_iter().find(|known| known.as_str() == kind)?;
        let proof = Proof { id: id.to_owned(), expires_at: Millis(expires_at.parse().ok()?) };
        let puzzle = Puzzle { token: token.to_owned(), kind, seed: seed(key, &text), proof };
        key.token.verify(&text, signature).then_some(puzzle)
    };
    let puzzle = read().ok_or(CheckError::Forged)?;
    if puzzle.proof.expires_at <= now { Err(CheckError::Expired) } else { Ok(puzzle) }
}

fn bound(body: &str, to: Subject<'_>) -> String {
    format!("{body} {} {}", to.activity, to.user)
}

fn seed(key: &Key, text: &str) -> u64 {
    key.seed.number(text)
}

#[cfg(test)]
mod tests {
    use super::super::{CheckKeys, LIFETIME_MS};
    use super::*;
    use crate::ids::{ActivityId, UserId};

    const SECRET: &str = "kX9v2mQ7Lr4tY8wZ1nB6cD3fG5hJ0pS-";

    #[test]
    fn a_puzzle_reads_back_for_its_user_sale_and_time_alone() {
        let keys = CheckKeys::new(SECRET);
        let (activity, user) = (ActivityId::parse("demo").expect("id"), UserId::parse("a b.c").expect("id"));
        let to = Subject { activity: &activity, user: &user };
        let puzzle = keys.ask_puzzle(to, Kind::Sum, 9, Millis(0)).expect("a puzzle");
        assert_eq!(keys.open_puzzle(&puzzle.token, to, Millis(1)), Ok(puzzle.clone()));
        assert_eq!(keys.open_puzzle(&puzzle.token, to, Millis(LIFETIME_MS)), Err(CheckError::Expired));
        let eve = UserId::parse("eve").expect("id");
        let forged = Err(CheckError::Forged);
        assert_eq!(keys.open_puzzle(&puzzle.token, Subject { user: &eve, ..to }, Millis(1)), forged);
        for wrong in ["", "...", &puzzle.token.replacen("sum", "slider", 1), &puzzle.token[1..]] {
            assert_eq!(keys.open_puzzle(wrong, to, Millis(1)), forged, "{wrong}");
        }
        let other = keys.ask_puzzle(to, Kind::Sum, 10, Millis(0)).expect("a puzzle");
        assert_ne!(other.seed, puzzle.seed);
    }
}
