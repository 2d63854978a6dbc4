//! I5: a unit is returned exactly once per order: what is left is the total minus what is still owned.

use super::{Evidence, Findings, Line};
use crate::wire::Status;

pub(super) fn judge(evidence: &Evidence) -> Line {
    let mut findings = Findings::default();
    let mut numbers = Vec::new();
    let refunding = evidence.orders.iter().filter(|order| order.status() == Some(Status::Refunding)).count();
    if refunding > 0 {
        findings.unknown(format!("{refunding} refunds are still on their way"));
    } else if evidence.unreadable() > 0 || evidence.unresolved > 0 {
        findings.unknown(format!(
            "{} orders could not be read, {} reservations have no known outcome",
            evidence.unreadable(),
            evidence.unresolved
        ));
    } else if let Some(stock) = &evidence.stock {
        let live = evidence.live_units();
        for stock in stock {
            let Some(live) = live.get(stock.sku.as_str()) else { continue };
            let expected = stock.total - live;
            let returned = returned_units(evidence, &stock.sku);
            match stock.left - expected {
                0 => numbers.push(format!("{}: {returned} units returned, {} left", stock.sku, stock.left)),
                surplus @ 1.. => findings.broken(format!(
                    "{}: {} left, {expected} expected: {surplus} returned more than once",
                    stock.sku, stock.left
                )),
                missing => findings.broken(format!(
                    "{}: {} left, {expected} expected: {} never returned",
                    stock.sku, stock.left, -missing
                )),
            }
        }
    } else {
        findings.unknown("the admin API showed no stock at the end");
    }
    match &evidence.audit {
        None => findings.unknown("the app's audit did not answer"),
        Some(skus) => {
            for sku in skus.iter().filter(|sku| sku.drift != 0) {
                findings.broken(format!("{}: Redis and ledger differ by {} at the end", sku.redis.sku, sku.drift));
            }
        }
    }
    findings.line("I5", "each unit came back exactly once", super::few(&numbers))
}

fn returned_units(evidence: &Evidence, sku: &str) -> u32 {
    evidence
        .orders
        .iter()
        .filter(|order| order.sku == sku && order.status().is_some_and(|status| !status.owns_units()))
        .map(|order| order.quantity)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::super::super::observations::{End, honest};
    use super::super::Finding;
    use super::*;

    fn with_left(left: i64) -> Line {
        let mut evidence = honest();
        for stock in evidence.stock.iter_mut().flatten() {
            stock.left = left;
        }
        judge(&evidence)
    }

    #[test]
    fn a_unit_that_came_back_twice_breaks_it() {
        let line = with_left(9);
        assert_eq!(line.finding, Finding::Broken);
        assert_eq!(line.numbers, "a: 9 left, 8 expected: 1 returned more than once");
    }

    #[test]
    fn a_unit_that_never_came_back_breaks_it() {
        let line = with_left(6);
        assert_eq!(line.finding, Finding::Broken);
        assert_eq!(line.numbers, "a: 6 left, 8 expected: 2 never returned");
    }

    #[test]
    fn drift_between_redis_and_ledger_breaks_it() {
        let mut evidence = honest();
        evidence.audit.as_mut().unwrap()[0].drift = -1;
        assert_eq!(judge(&evidence).finding, Finding::Broken);
    }

    #[test]
    fn it_is_unknown_while_a_refund_is_on_its_way() {
        let mut evidence = honest();
        evidence.orders[0].end = End::Status(Status::Refunding);
        assert_eq!(judge(&evidence).finding, Finding::Unknown);
    }

    #[test]
    fn it_is_unknown_while_an_order_is() {
        let mut evidence = honest();
        evidence.orders[0].end = End::Unreadable;
        assert_eq!(judge(&evidence).finding, Finding::Unknown);
    }
}
