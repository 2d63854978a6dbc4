//! I3: no user holds more than `per_user` live units of a SKU.

use std::collections::BTreeMap;

use super::{
    findings::{CheckResult, Findings},
    peak,
};
use crate::simulation::observations::{Observations, ObservedOrder};

pub(super) fn check(observations: &Observations) -> CheckResult {
    let mut findings = Findings::default();
    let mut orders_by_user: BTreeMap<(&str, &str), Vec<&ObservedOrder>> = BTreeMap::new();
    for order in observations.orders.iter().filter(|order| !order.is_entry()) {
        orders_by_user.entry((&order.user, &order.sku)).or_default().push(order);
    }
    let mut largest = 0;
    for ((user, sku), orders) in &orders_by_user {
        let live: i64 = orders.iter().map(|order| order.live_units()).sum();
        let most = live.max(peak::peak_live_units(orders.iter().copied()));
        largest = largest.max(most);
        if most > observations.per_user.into() {
            findings.broken(format!("{user} held {most} units of {sku}, {} are allowed", observations.per_user));
        }
    }
    for (sku, ledger) in
        observations.ledger_stock().filter(|(_, ledger)| ledger.most_per_user > observations.per_user.into())
    {
        let most = ledger.most_per_user;
        findings
            .broken(format!("{sku}: in the ledger a user holds {most} units, {} are allowed", observations.per_user));
    }
    if observations.unreadable_orders() > 0 {
        findings.unknown(format!("{} orders could not be read", observations.unreadable_orders()));
    }
    findings.into_result(
        "I3",
        "no user holds more than per_user",
        format!(
            "{} users hold or held units, {largest} at most, {} allowed",
            orders_by_user.len(),
            observations.per_user
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::findings::{Finding, expect};
    use super::*;
    use crate::simulation::observations::LastSeen;
    use crate::wire::OrderStatus;

    /// Adds a copy of the first order, after `change`.
    fn add_order(sale: &mut Observations, change: impl FnOnce(&mut ObservedOrder)) {
        let mut second = ObservedOrder { order_no: "s.4".to_owned(), ..sale.orders[0].clone() };
        change(&mut second);
        sale.orders.push(second);
    }

    #[test]
    fn a_user_over_the_limit_in_the_ledger_breaks_it() {
        expect(Finding::Broken, check, |sale| {
            sale.audit.as_mut().unwrap()[0].ledger.as_mut().unwrap().most_per_user = 3;
        });
    }

    #[test]
    fn a_released_order_no_longer_counts() {
        expect(Finding::Ok, check, |sale| {
            add_order(sale, |order| {
                order.live_intervals[0].from = order.live_intervals[0].until;
                order.live_intervals[0].until *= 2;
                order.end = LastSeen::Status(OrderStatus::Expired);
            });
        });
    }
}
