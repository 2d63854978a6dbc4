//! I5: each order returns its units exactly once: left = total − units still owned.

use super::findings::{CheckResult, Findings, first_three};
use crate::{simulation::observations::Observations, wire::OrderStatus};

pub(super) fn check(observations: &Observations) -> CheckResult {
    let mut findings = Findings::default();
    let mut numbers = Vec::new();
    let refunding = observations.orders.iter().filter(|order| order.status() == Some(OrderStatus::Refunding)).count();
    if refunding > 0 {
        findings.unknown(format!("{refunding} refunds are still on their way"));
    } else if observations.unreadable_orders() > 0 || observations.unknown_outcomes > 0 {
        findings.unknown(format!(
            "{} orders could not be read, {} reservations have no known outcome",
            observations.unreadable_orders(),
            observations.unknown_outcomes
        ));
    } else if let Some(stock) = &observations.final_stock {
        let live = observations.live_units();
        for stock in stock {
            let Some(live) = live.get(stock.sku.as_str()) else { continue };
            let expected = stock.total - live;
            let returned = returned_units(observations, &stock.sku);
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
    match &observations.audit {
        None => findings.unknown("the app's audit did not answer"),
        Some(skus) => {
            for sku in skus.iter().filter(|sku| sku.drift != 0) {
                findings.broken(format!("{}: Redis and ledger differ by {} at the end", sku.redis.sku, sku.drift));
            }
        }
    }
    findings.into_result("I5", "each unit came back exactly once", first_three(&numbers))
}

fn returned_units(observations: &Observations, sku: &str) -> u32 {
    observations
        .orders
        .iter()
        .filter(|order| order.sku == sku && !order.is_entry() && order.status().is_some_and(|status| !status.is_live()))
        .map(|order| order.quantity)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::super::findings::{Finding, expect};
    use super::*;
    use crate::simulation::observations::LastSeen;

    fn set_left(sale: &mut Observations, left: i64) {
        sale.final_stock.iter_mut().flatten().for_each(|stock| stock.left = left);
    }

    #[test]
    fn a_unit_that_is_never_returned_breaks_it() {
        let numbers = expect(Finding::Broken, check, |sale| set_left(sale, 6));
        assert_eq!(numbers, "a: 6 left, 8 expected: 2 never returned");
    }

    #[test]
    fn drift_between_redis_and_ledger_breaks_it() {
        expect(Finding::Broken, check, |sale| sale.audit.as_mut().unwrap()[0].drift = -1);
    }

    #[test]
    fn it_is_unknown_while_a_refund_is_pending() {
        expect(Finding::Unknown, check, |sale| sale.orders[0].end = LastSeen::Status(OrderStatus::Refunding));
    }

    #[test]
    fn it_is_unknown_while_an_order_is_unreadable() {
        expect(Finding::Unknown, check, |sale| sale.orders[0].end = LastSeen::Unreadable);
    }
}
