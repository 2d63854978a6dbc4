//! Judges the human check that came with the wish for a ticket (B5).

use domain::{
    activity::HumanCheck,
    body::Object,
    check::{CheckError, CheckKeys, Kind, LIFETIME_MS, Proof},
    problem::{Code, Problem},
};
use puzzle::{
    slider::{self, Slide},
    sum,
};
use serde::Deserialize;
use workflows::hot::admission::{Check, SUSPICIOUS};

use crate::visitor::Visit;

/// The answer to a check: what ALTCHA's widget made, or the answer to a puzzle.
#[derive(Default, Deserialize)]
pub struct Solution {
    altcha: Option<String>,
    captcha: Option<Object<Captcha>>,
}

/// The answer to a puzzle.
#[derive(Deserialize)]
struct Captcha {
    id: String,
    answer: i64,
    /// How a piece was slid: milliseconds and pixels.
    #[serde(default)]
    track: Vec<(i64, i64)>,
}

/// What came of the check, and why it failed if it did.
pub struct Verdict {
    /// As Redis takes it.
    pub check: Check,
    /// What to answer where it failed.
    pub because: &'static str,
}

/// Judges, where a check is asked for; `score` is how suspicious the visitor is in all.
///
/// # Errors
/// `human_check_required` where there is nothing to judge.
pub fn judge(keys: &CheckKeys, visit: &Visit, solution: &Solution, score: i64) -> Result<Option<Verdict>, Problem> {
    let passed = match visit.sale.spec.human_check {
        HumanCheck::None => return Ok(None),
        HumanCheck::Suspicious if score < SUSPICIOUS => return Ok(None),
        HumanCheck::Pow | HumanCheck::Suspicious => {
            let text = solution.altcha.as_deref().ok_or_else(required)?;
            keys.verify_altcha(text, visit.subject(), visit.now)
        }
        HumanCheck::Captcha => solve(keys, visit, &solution.captcha.as_ref().ok_or_else(required)?.0),
    };
    Ok(Some(match passed {
        Ok(proof) => Verdict { check: Check::Passed(proof), because: "The check was used before. Ask for a new one." },
        Err(CheckError::Unsolved(proof)) => {
            Verdict { check: Check::Failed(Some(proof)), because: "The check was not solved. Ask for a new one." }
        }
        // To be late is human: it is refused, and not held against anybody.
        Err(CheckError::Expired) => return Err(failed("The check has expired. Ask for a new one.")),
        Err(CheckError::Forged) => Verdict {
            check: Check::Failed(None),
            because: "The check is not one that was given to you for this sale. Ask for a new one.",
        },
    }))
}

fn solve(keys: &CheckKeys, visit: &Visit, captcha: &Captcha) -> Result<Proof, CheckError> {
    let puzzle = keys.open_puzzle(&captcha.id, visit.subject(), visit.now)?;
    let right = match puzzle.kind {
        Kind::Sum => sum::judge(puzzle.seed, captcha.answer),
        Kind::Slider => {
            let elapsed_ms = LIFETIME_MS - (puzzle.proof.expires_at.0 - visit.now.0);
            let slide = Slide { x: captcha.answer, track: captcha.track.clone() };
            // Clocks of instances differ a little.
            slider::judge(puzzle.seed, &slide, elapsed_ms + 1_000)
        }
    };
    if right { Ok(puzzle.proof) } else { Err(CheckError::Unsolved(puzzle.proof)) }
}

fn required() -> Problem {
    Problem::new(Code::HumanCheckRequired, "Solve a challenge of this sale first.")
}

/// The check failed because of this.
pub fn failed(because: &str) -> Problem {
    Problem::new(Code::HumanCheckFailed, because)
}
