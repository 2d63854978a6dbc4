//! I7 and B3: a ticket makes one order however often it is sent, and a retry after a lost response returns it.

use std::collections::{BTreeMap, BTreeSet};

use super::findings::{CheckResult, Findings};
use crate::simulation::observations::Observations;

pub(super) fn check(observations: &Observations) -> CheckResult {
    let mut findings = Findings::default();
    let mut ticket_by_order: BTreeMap<&str, usize> = BTreeMap::new();
    for (ticket, order_nos) in observations.orders_by_ticket.iter().enumerate() {
        let distinct: BTreeSet<&str> = order_nos.iter().map(String::as_str).collect();
        if distinct.len() > 1 {
            findings.broken(format!("one ticket made {distinct:?}"));
        }
        for order_no in distinct {
            if ticket_by_order.insert(order_no, ticket).is_some() {
                findings.broken(format!("{order_no} was given to two tickets"));
            }
        }
    }
    for order_no in &observations.denied_orders {
        findings.broken(format!("{order_no} exists, but its ticket was refused when it asked again"));
    }
    let repeats: usize = observations.orders_by_ticket.iter().map(|order_nos| order_nos.len().saturating_sub(1)).sum();
    findings.into_result(
        "I7",
        "a ticket makes one order",
        format!("{} order numbers, {repeats} repeated requests", ticket_by_order.len()),
    )
}

#[cfg(test)]
mod tests {
    use super::super::findings::{Finding, expect};
    use super::*;

    #[test]
    fn an_order_number_given_to_two_tickets_breaks_it() {
        let numbers = expect(Finding::Broken, check, |sale| sale.orders_by_ticket[1] = vec!["s.1".to_owned()]);
        assert_eq!(numbers, "s.1 was given to two tickets");
    }

    #[test]
    fn a_refused_replay_of_an_accepted_ticket_breaks_it() {
        expect(Finding::Broken, check, |sale| sale.denied_orders.push("s.2".to_owned()));
    }
}
