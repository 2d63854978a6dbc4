//! I4: every `202` ends as an order in the ledger, or as a dead letter that an operator can see.

use std::collections::BTreeMap;

use super::findings::{CheckResult, Findings};
use crate::{
    simulation::observations::{LastSeen, Observations},
    wire::OrderStatus,
};

pub(super) fn check(observations: &Observations) -> CheckResult {
    let mut findings = Findings::default();
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    let mut dead_letter_count = 0_u64;
    for order in &observations.orders {
        match order.end {
            LastSeen::Status(OrderStatus::Queued) => {
                findings.unknown(format!("{} is still queued", order.order_no));
            }
            LastSeen::Status(_) => {}
            LastSeen::Missing => match &observations.dead_letters {
                Some(letters) if letters.contains(&order.order_no) => dead_letter_count += 1,
                Some(_) => findings.broken(format!("{} was accepted and is gone", order.order_no)),
                None => findings.unknown(format!("{} is gone, and the dead letters cannot be read", order.order_no)),
            },
            LastSeen::Unreadable => findings.unknown(format!("{} could not be read", order.order_no)),
        }
        // Who was never offered a unit has no order in the ledger.
        if let LastSeen::Status(status) = order.end
            && !order.is_entry()
        {
            *seen.entry(status.to_string()).or_default() += 1;
        }
    }
    compare_with_stats(observations, &seen, &mut findings);
    if observations.orders.is_empty() {
        findings.unknown("no buyer got an order: nothing was tested");
    }
    let ends = seen.iter().map(|(status, count)| format!("{count} {status}")).collect::<Vec<_>>().join(", ");
    let dead_letter_count =
        if dead_letter_count > 0 { format!(", {dead_letter_count} dead letters") } else { String::new() };
    let accepted = observations.orders.iter().filter(|order| !order.is_entry()).count();
    findings.into_result("I4", "every 202 became an order", format!("{accepted} accepted: {ends}{dead_letter_count}"))
}

/// Compares the admin API's counts with the orders that buyers know of.
/// Fewer in the admin API: orders were lost. More: no buyer was ever told of them.
/// Failed orders are left out: they are dead letters and not in the ledger.
fn compare_with_stats(observations: &Observations, seen: &BTreeMap<String, u64>, findings: &mut Findings) {
    let in_ledger = |counts: &BTreeMap<String, u64>| -> BTreeMap<String, u64> {
        counts
            .iter()
            .filter(|(status, _)| *status != "failed")
            .map(|(status, count)| (status.clone(), *count))
            .collect()
    };
    let Some(counted) = &observations.orders_by_status else {
        return findings.unknown("the admin API counted no orders at the end");
    };
    let (seen, counted) = (in_ledger(seen), in_ledger(counted));
    let counted_count: u64 = counted.values().sum();
    let seen_count: u64 = seen.values().sum();
    if counted_count > seen_count && observations.unknown_outcomes > 0 {
        findings.unknown(format!(
            "{} orders more than buyers know of, and {} buyers could not learn their outcome",
            counted_count - seen_count,
            observations.unknown_outcomes
        ));
    } else if counted_count != seen_count {
        findings.broken(format!("buyers know of {seen_count} orders, the operator counts {counted_count}"));
    } else {
        for status in seen.keys().chain(counted.keys()) {
            let (seen_count, counted_count) = (seen.get(status).unwrap_or(&0), counted.get(status).unwrap_or(&0));
            if seen_count != counted_count {
                findings
                    .broken(format!("buyers see {seen_count} orders {status}, the operator counts {counted_count}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::findings::{Finding, expect};
    use super::*;

    fn counted(sale: &mut Observations) -> &mut BTreeMap<String, u64> {
        sale.orders_by_status.as_mut().unwrap()
    }

    #[test]
    fn a_dead_letter_is_not_missing() {
        let gone = |sale: &mut Observations| {
            sale.orders[2].end = LastSeen::Missing;
            counted(sale).remove("expired");
            sale.dead_letters = None;
        };
        expect(Finding::Unknown, check, gone);
        expect(Finding::Ok, check, |sale| {
            gone(sale);
            sale.dead_letters = Some(["s.3".to_owned()].into());
        });
    }

    #[test]
    fn a_failed_order_is_not_expected_in_the_ledger() {
        expect(Finding::Ok, check, |sale| {
            sale.orders[2].end = LastSeen::Status(OrderStatus::Failed);
            counted(sale).remove("expired");
        });
    }

    #[test]
    fn an_order_unknown_to_every_buyer_breaks_it() {
        let add = |sale: &mut Observations| counted(sale).extend([owned(("pending_payment", 1))]);
        expect(Finding::Broken, check, add);
        expect(Finding::Unknown, check, |sale| {
            add(sale);
            sale.unknown_outcomes = 1;
        });
    }

    #[test]
    fn different_counts_per_status_break_it() {
        expect(Finding::Broken, check, |sale| *counted(sale) = [("paid", 2), ("cancelled", 1)].map(owned).into());
    }

    fn owned((status, count): (&str, u64)) -> (String, u64) {
        (status.to_owned(), count)
    }
}
