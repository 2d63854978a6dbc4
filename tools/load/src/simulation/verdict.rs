//! The verdict: every invariant against the evidence, each with the numbers that decide it.
//!
//! Unknown is not failed, and not held either: what could not be seen is said to be unknown.

mod conservation;
mod delivery;
mod expiry;
mod moments;
mod payments;
mod quota;
mod replays;
mod returns;
mod stock;

use serde::Serialize;

use super::observations::Evidence;

/// What a check found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// It held, as far as anyone can see.
    Ok,
    /// It could not be judged.
    Unknown,
    /// It did not hold.
    Broken,
}

/// One line of the verdict.
#[derive(Debug, Clone, Serialize)]
pub struct Line {
    /// The id in the design or the requirements.
    pub id: &'static str,
    /// What must hold, in words.
    pub promise: &'static str,
    /// Whether it held.
    pub finding: Finding,
    /// The numbers.
    pub numbers: String,
}

/// All lines.
#[derive(Debug, Clone, Serialize)]
pub struct Verdict {
    /// In the order of the ids.
    pub lines: Vec<Line>,
}

/// Judges a sale.
pub fn judge(evidence: &Evidence) -> Verdict {
    Verdict {
        lines: vec![
            conservation::judge(evidence),
            stock::judge(evidence),
            quota::judge(evidence),
            delivery::judge(evidence),
            returns::judge(evidence),
            payments::judge(evidence),
            replays::judge(evidence),
            expiry::judge(evidence),
        ],
    }
}

impl Verdict {
    /// The worst finding of all.
    pub fn finding(&self) -> Finding {
        self.lines.iter().map(|line| line.finding).max().unwrap_or(Finding::Unknown)
    }

    /// 0 all held, 1 something is broken, 2 something could not be judged.
    pub fn exit_code(&self) -> u8 {
        match self.finding() {
            Finding::Ok => 0,
            Finding::Broken => 1,
            Finding::Unknown => 2,
        }
    }
}

/// Collects what speaks against a promise; without anything, it held.
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

    /// `numbers` is what a line says when nothing is wrong.
    fn line(self, id: &'static str, promise: &'static str, numbers: String) -> Line {
        let (finding, numbers) = if !self.broken.is_empty() {
            (Finding::Broken, few(&self.broken))
        } else if !self.unknown.is_empty() {
            (Finding::Unknown, few(&self.unknown))
        } else {
            (Finding::Ok, numbers)
        };
        Line { id, promise, finding, numbers }
    }
}

/// The first three, and how many more.
fn few(items: &[String]) -> String {
    let shown = items.iter().take(3).map(String::as_str).collect::<Vec<_>>().join("; ");
    match items.len().saturating_sub(3) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::observations::honest;
    use super::*;

    #[test]
    fn an_honest_sale_holds_on_every_line() {
        let verdict = judge(&honest());
        assert!(verdict.lines.iter().all(|line| line.finding == Finding::Ok), "{verdict:#?}");
        assert_eq!(verdict.exit_code(), 0);
    }

    #[test]
    fn a_sale_in_which_nobody_won_proves_nothing() {
        let mut evidence = honest();
        evidence.orders.clear();
        evidence.tickets.clear();
        evidence.counted = Some(Default::default());
        for stock in evidence.stock.iter_mut().flatten() {
            (stock.left, stock.sold) = (10, 0);
        }
        assert_eq!(judge(&evidence).exit_code(), 2);
    }

    #[test]
    fn broken_outweighs_unknown() {
        let mut evidence = honest();
        evidence.samples[1].left = -1;
        evidence.counted = None;
        assert_eq!(judge(&evidence).exit_code(), 1);
    }
}
