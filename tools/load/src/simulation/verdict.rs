//! Checks every invariant against the observations, each with the numbers that decide it.
//!
//! What could not be observed is reported as unknown: neither passed nor failed.

mod conservation;
mod delivery;
mod expiry;
mod payments;
mod peak;
mod quota;
mod replays;
mod returns;
mod stock;

use serde::Serialize;

use super::observations::Observations;

/// The result of a check, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// The invariant held in all observations.
    Ok,
    /// The invariant could not be checked.
    Unknown,
    /// The invariant was violated.
    Broken,
}

/// The result of checking one invariant.
#[derive(Debug, Clone, Serialize)]
pub struct CheckResult {
    /// Its id in the design or the requirements.
    pub id: &'static str,
    /// What must hold, in words.
    pub promise: &'static str,
    /// Whether it held.
    pub finding: Finding,
    /// The numbers that decide it.
    pub numbers: String,
}

/// The results of all checks.
#[derive(Debug, Clone, Serialize)]
pub struct Verdict {
    /// One result per invariant.
    pub lines: Vec<CheckResult>,
}

/// Runs all checks.
pub fn evaluate(observations: &Observations) -> Verdict {
    Verdict {
        lines: vec![
            conservation::check(observations),
            stock::check(observations),
            quota::check(observations),
            delivery::check(observations),
            returns::check(observations),
            payments::check(observations),
            replays::check(observations),
            expiry::check(observations),
        ],
    }
}

impl Verdict {
    /// The worst finding.
    pub fn finding(&self) -> Finding {
        self.lines.iter().map(|result| result.finding).max().unwrap_or(Finding::Unknown)
    }

    /// 0 if all held, 1 if any is broken, otherwise 2.
    pub fn exit_code(&self) -> u8 {
        match self.finding() {
            Finding::Ok => 0,
            Finding::Broken => 1,
            Finding::Unknown => 2,
        }
    }
}

/// Collects violations and gaps of one invariant. Without any, it held.
#[derive(Default)]
struct Findings {
    broken: Vec<String>,
    unknown: Vec<String>,
}

impl Findings {
    fn broken(&mut self, what: impl Into<String>) {
        self.broken.push(what.into());
    }

    fn unknown(&mut self, what: impl Into<String>) {
        self.unknown.push(what.into());
    }

    /// `numbers` is what the result shows if nothing is wrong.
    fn into_result(self, id: &'static str, promise: &'static str, numbers: String) -> CheckResult {
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

/// The first three items, and the number of the others.
fn first_three(items: &[String]) -> String {
    let shown = items.iter().take(3).map(String::as_str).collect::<Vec<_>>().join("; ");
    match items.len().saturating_sub(3) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::observations::correct_sale;
    use super::*;

    #[test]
    fn a_correct_sale_passes_every_check() {
        let verdict = evaluate(&correct_sale());
        assert!(verdict.lines.iter().all(|result| result.finding == Finding::Ok), "{verdict:#?}");
        assert_eq!(verdict.exit_code(), 0);
    }

    #[test]
    fn a_sale_without_orders_is_unknown() {
        let mut observations = correct_sale();
        observations.orders.clear();
        observations.orders_by_ticket.clear();
        observations.orders_by_status = Some(Default::default());
        for stock in observations.final_stock.iter_mut().flatten() {
            (stock.left, stock.sold) = (10, 0);
        }
        assert_eq!(evaluate(&observations).exit_code(), 2);
    }

    #[test]
    fn broken_outweighs_unknown() {
        let mut observations = correct_sale();
        observations.stock_samples[1].left = -1;
        observations.orders_by_status = None;
        assert_eq!(evaluate(&observations).exit_code(), 1);
    }
}
