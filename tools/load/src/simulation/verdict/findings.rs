//! The result of one check, and how a check collects it.

use serde::Serialize;

#[cfg(test)]
use crate::simulation::observations::Observations;

/// The result of a check, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    Ok,
    /// The invariant could not be checked.
    Unknown,
    /// The invariant was violated.
    Broken,
}

#[derive(Debug, Clone, Serialize)]
pub struct CheckResult {
    /// Its id in docs/requirements.md or, for an invariant, in ARCHITECTURE.md.
    pub id: &'static str,
    pub promise: &'static str,
    pub finding: Finding,
    /// The numbers that decide it.
    pub numbers: String,
}

/// Collects violations and gaps of one invariant. Without any, it held.
#[derive(Default)]
pub(super) struct Findings {
    broken: Vec<String>,
    unknown: Vec<String>,
}

impl Findings {
    pub(super) fn broken(&mut self, what: impl Into<String>) {
        self.broken.push(what.into());
    }

    pub(super) fn unknown(&mut self, what: impl Into<String>) {
        self.unknown.push(what.into());
    }

    /// `numbers` is what the result shows if nothing is wrong.
    pub(super) fn into_result(self, id: &'static str, promise: &'static str, numbers: String) -> CheckResult {
        let (finding, numbers) = if !self.broken.is_empty() {
            (Finding::Broken, first_three(&self.broken))
        } else if !self.unknown.is_empty() {
            (Finding::Unknown, first_three(&self.unknown))
        } else {
            (Finding::Ok, numbers)
        };
        CheckResult { id, promise, finding, numbers }
    }
}

/// Checks a correct sale after `change`, and asserts the finding. Returns the numbers of the result.
#[cfg(test)]
#[track_caller]
pub(super) fn expect(
    finding: Finding,
    check: impl Fn(&Observations) -> CheckResult,
    change: impl FnOnce(&mut Observations),
) -> String {
    let mut sale = crate::simulation::observations::test_sales::correct_sale();
    change(&mut sale);
    let result = check(&sale);
    assert_eq!(result.finding, finding, "{}", result.numbers);
    result.numbers
}

/// The first three items, and the number of the others.
pub(super) fn first_three(items: &[String]) -> String {
    let shown = items.iter().take(3).map(String::as_str).collect::<Vec<_>>().join("; ");
    match items.len().saturating_sub(3) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}
