//! I3: no user holds more than `per_user` live units of a SKU.

use std::collections::BTreeMap;

use super::{Evidence, Findings, Line, moments};
use crate::simulation::observations::OrderSeen;

pub(super) fn judge(evidence: &Evidence) -> Line {
    let mut findings = Findings::default();
    let mut holders: BTreeMap<(&str, &str), Vec<&OrderSeen>> = BTreeMap::new();
    for order in &evidence.orders {
        holders.entry((&order.user, &order.sku)).or_default().push(order);
    }
    let mut largest = 0;
    for ((user, sku), orders) in &holders {
        let live: i64 = orders.iter().map(|order| order.live_units()).sum();
        let most = live.max(moments::most_alive(orders.iter().copied()));
        largest = largest.max(most);
        if most > evidence.per_user.into() {
            findings.broken(format!("{user} held {most} units of {sku}, {} are allowed", evidence.per_user));
        }
    }
    for (sku, ledger) in evidence.ledger().filter(|(_, ledger)| ledger.most_per_user > evidence.per_user.into()) {
        let most = ledger.most_per_user;
        findings.broken(format!("{sku}: in the ledger a user holds {most} units, {} are allowed", evidence.per_user));
    }
    if evidence.unreadable() > 0 {
        findings.unknown(format!("{} orders could not be read", evidence.unreadable()));
    }
    findings.line(
        "I3",
        "no user holds more than per_user",
        format!("{} users hold or held units, {largest} at most, {} allowed", holders.len(), evidence.per_user),
    )
}

#[cfg(test)]
mod tests {
    use super::super::super::observations::{End, honest};
    use super::super::Finding;
    use super::*;
    use crate::wire::Status;

    #[test]
    fn a_user_with_too_many_units_breaks_it() {
        let mut evidence = honest();
        let mut second = evidence.orders[0].clone();
        second.order_no = "s.4".to_owned();
        second.quantity = 1;
        evidence.orders.push(second);
        let line = judge(&evidence);
        assert_eq!(line.finding, Finding::Broken);
        assert_eq!(line.numbers, "user-1 held 3 units of a, 2 are allowed");
    }

    #[test]
    fn a_ledger_that_shows_too_much_in_one_hand_breaks_it() {
        let mut evidence = honest();
        evidence.audit.as_mut().unwrap()[0].ledger.as_mut().unwrap().most_per_user = 3;
        assert_eq!(judge(&evidence).finding, Finding::Broken);
    }

    #[test]
    fn a_released_order_no_longer_counts() {
        let mut evidence = honest();
        let mut second = evidence.orders[0].clone();
        second.order_no = "s.4".to_owned();
        second.alive[0].from = second.alive[0].until;
        second.alive[0].until *= 2;
        second.end = End::Status(Status::Expired);
        evidence.orders.push(second);
        assert_eq!(judge(&evidence).finding, Finding::Ok);
    }
}
