//! Checks every invariant against the observations, each with the numbers that decide it.
//!
//! What could not be observed is reported as unknown: neither passed nor failed.

mod conservation;
mod delivery;
mod expiry;
mod findings;
mod line;
mod payments;
mod peak;
mod quota;
mod replays;
mod returns;
mod stock;

use serde::Serialize;

pub use self::findings::{CheckResult, Finding};
use super::observations::Observations;

#[derive(Debug, Clone, Serialize)]
pub struct Verdict {
    pub results: Vec<CheckResult>,
}

pub fn evaluate(observations: &Observations) -> Verdict {
    let mut verdict = Verdict {
        results: vec![
            conservation::check(observations),
            stock::check(observations),
            quota::check(observations),
            delivery::check(observations),
            returns::check(observations),
            payments::check(observations),
            replays::check(observations),
            expiry::check(observations),
        ],
    };
    if let Some(unoffered) = &observations.unoffered {
        verdict.results.push(line::check_hand_off(observations, unoffered));
        verdict.results.push(line::check_order(observations));
    }
    verdict
}

impl Verdict {
    pub fn finding(&self) -> Finding {
        self.results.iter().map(|result| result.finding).max().unwrap_or(Finding::Unknown)
    }

    pub fn conclusion(&self) -> &'static str {
        match self.finding() {
            Finding::Ok => "Every invariant held.",
            Finding::Unknown => "The sale could not be judged: see the lines that are UNKNOWN.",
            Finding::Broken => "An invariant is BROKEN.",
        }
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

#[cfg(test)]
mod tests {
    use super::super::observations::test_sales::{correct_sale, sale_with_line};
    use super::*;

    #[test]
    fn a_correct_sale_passes_every_check() {
        let verdict = evaluate(&correct_sale());
        assert!(verdict.results.iter().all(|result| result.finding == Finding::Ok), "{verdict:#?}");
        assert_eq!(verdict.exit_code(), 0);
        let verdict = evaluate(&sale_with_line());
        assert!(verdict.results.iter().all(|result| result.finding == Finding::Ok), "{verdict:#?}");
        assert_eq!(verdict.results.len(), 10);
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
