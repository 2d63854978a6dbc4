//! Verifies the human check in a ticket request (B5).

use domain::{
    activity::HumanCheck,
    api::admission::{PuzzleSolution, Solution},
    http::problem::{Code, Problem},
    human_check::{CheckError, CheckKeys, CheckRecord, LIFETIME_MS, PuzzleKind},
};
use puzzle::{
    slider::{self, Slide},
    sum,
};
use sale::admission::{CheckOutcome, SUSPICION_THRESHOLD};

use crate::precheck::Precheck;

/// The result of a check, to be recorded in Redis before the response.
pub struct CheckResult {
    /// What Redis records.
    pub outcome: CheckOutcome,
    /// The response's `detail` if the check failed, or if Redis finds that it was used before.
    pub detail: &'static str,
}

/// Verifies the solution of a check that this app issued; `None` if the activity requires no check of this visitor.
/// `score` is the visitor's suspicion score with strikes.
///
/// # Errors
/// `human_check_required` if there is no solution; `human_check_failed` if the check has expired.
pub fn verify(
    keys: &CheckKeys,
    precheck: &Precheck,
    solution: &Solution,
    score: i64,
) -> Result<Option<CheckResult>, Problem> {
    let result = match (precheck.activity.spec.human_check, &solution.captcha) {
        (HumanCheck::None, _) => return Ok(None),
        (HumanCheck::Suspicious, _) if score < SUSPICION_THRESHOLD => return Ok(None),
        (HumanCheck::Captcha, Some(puzzle)) => verify_puzzle(keys, precheck, &puzzle.0),
        // Where the check is a picture, too: work is the other way.
        _ => {
            let text = solution.altcha.as_deref().ok_or_else(check_required)?;
            keys.verify_altcha(text, precheck.subject(), precheck.now)
        }
    };
    Ok(Some(match result {
        Ok(record) => CheckResult {
            outcome: CheckOutcome::Passed(record),
            detail: "The check was used before. Ask for a new one.",
        },
        Err(CheckError::Unsolved(record)) => CheckResult {
            outcome: CheckOutcome::Failed(Some(record)),
            detail: "The check was not solved. Ask for a new one.",
        },
        // An expired check is refused but not counted as abuse.
        Err(CheckError::Expired) => return Err(check_failed("The check has expired. Ask for a new one.")),
        Err(CheckError::Forged) => CheckResult {
            outcome: CheckOutcome::Failed(None),
            detail: "The check is not one that was given to you for this sale. Ask for a new one.",
        },
    }))
}

fn verify_puzzle(keys: &CheckKeys, precheck: &Precheck, solution: &PuzzleSolution) -> Result<CheckRecord, CheckError> {
    let puzzle = keys.verify_puzzle(&solution.id, precheck.subject(), precheck.now)?;
    let correct = match puzzle.kind {
        PuzzleKind::Sum => sum::verify(puzzle.seed, solution.answer),
        PuzzleKind::Slider => {
            let elapsed_ms = LIFETIME_MS - (puzzle.record.expires_at.0 - precheck.now.0);
            let slide = Slide { x: solution.answer, track: solution.track.clone() };
            // One second of tolerance, because the clocks of instances differ.
            slider::verify(puzzle.seed, &slide, elapsed_ms + 1_000)
        }
    };
    if correct { Ok(puzzle.record) } else { Err(CheckError::Unsolved(puzzle.record)) }
}

/// Returns the `human_check_required` error.
pub fn check_required() -> Problem {
    Problem::new(Code::HumanCheckRequired, "Solve a challenge of this sale first.")
}

/// Returns the `human_check_failed` error with this `detail`.
pub fn check_failed(detail: &str) -> Problem {
    Problem::new(Code::HumanCheckFailed, detail)
}
