//! I4: every `202` ends as an order in the ledger, or as a dead letter that an operator can see.

use std::collections::BTreeMap;

use super::{Evidence, Findings, Line};
use crate::simulation::observations::End;
use crate::wire::Status;

pub(super) fn judge(evidence: &Evidence) -> Line {
    let mut findings = Findings::default();
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    let mut dead = 0_u64;
    for order in &evidence.orders {
        match order.end {
            End::Status(status @ (Status::Queued | Status::Unheard)) => {
                findings.unknown(format!("{} is still {status}", order.order_no));
            }
            End::Status(_) => {}
            End::Missing => match &evidence.dead_letters {
                Some(letters) if letters.contains(&order.order_no) => dead += 1,
                Some(_) => findings.broken(format!("{} was accepted and is gone", order.order_no)),
                None => findings.unknown(format!("{} is gone, and the dead letters cannot be read", order.order_no)),
            },
            End::Unreadable => findings.unknown(format!("{} could not be read", order.order_no)),
        }
        if let End::Status(status) = order.end {
            *seen.entry(status.to_string()).or_default() += 1;
        }
    }
    compare_with_the_operators_count(evidence, &seen, &mut findings);
    if evidence.orders.is_empty() {
        findings.unknown("nobody got an order: nothing was put to the test");
    }
    let ends = seen.iter().map(|(status, count)| format!("{count} {status}")).collect::<Vec<_>>().join(", ");
    let dead = if dead > 0 { format!(", {dead} dead letters") } else { String::new() };
    findings.line("I4", "every 202 became an order", format!("{} accepted: {ends}{dead}", evidence.orders.len()))
}

/// The operator must count what the buyers see: fewer orders got lost, more were never announced to anyone.
/// A failed order is a dead letter and not in the ledger: those are left out.
fn compare_with_the_operators_count(evidence: &Evidence, seen: &BTreeMap<String, u64>, findings: &mut Findings) {
    let in_ledger = |counts: &BTreeMap<String, u64>| -> BTreeMap<String, u64> {
        counts
            .iter()
            .filter(|(status, _)| *status != "failed")
            .map(|(status, count)| (status.clone(), *count))
            .collect()
    };
    let Some(counted) = &evidence.counted else {
        return findings.unknown("the admin API counted no orders at the end");
    };
    let (seen, counted) = (in_ledger(seen), in_ledger(counted));
    let theirs: u64 = counted.values().sum();
    let ours: u64 = seen.values().sum();
    if theirs > ours && evidence.unresolved > 0 {
        findings.unknown(format!(
            "{} orders more than buyers know of, and {} buyers could not learn their outcome",
            theirs - ours,
            evidence.unresolved
        ));
    } else if theirs != ours {
        findings.broken(format!("buyers know of {ours} orders, the operator counts {theirs}"));
    } else {
        for status in seen.keys().chain(counted.keys()) {
            let (ours, theirs) = (seen.get(status).unwrap_or(&0), counted.get(status).unwrap_or(&0));
            if ours != theirs {
                findings.broken(format!("buyers see {ours} orders {status}, the operator counts {theirs}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::observations::honest;
    use super::super::Finding;
    use super::*;

    #[test]
    fn an_accepted_order_that_is_gone_breaks_it() {
        let mut evidence = honest();
        evidence.orders[2].end = End::Missing;
        let line = judge(&evidence);
        assert_eq!(line.finding, Finding::Broken);
        assert!(line.numbers.contains("s.3 was accepted and is gone"), "{}", line.numbers);
    }

    #[test]
    fn a_dead_letter_is_not_gone() {
        let mut evidence = honest();
        evidence.orders[2].end = End::Missing;
        evidence.counted.as_mut().unwrap().remove("expired");
        evidence.dead_letters = None;
        assert_eq!(judge(&evidence).finding, Finding::Unknown);
        evidence.dead_letters = Some(["s.3".to_owned()].into());
        assert_eq!(judge(&evidence).finding, Finding::Ok);
    }

    #[test]
    fn a_failed_order_is_not_in_the_ledger() {
        let mut evidence = honest();
        evidence.orders[2].end = End::Status(Status::Failed);
        evidence.counted.as_mut().unwrap().remove("expired");
        assert_eq!(judge(&evidence).finding, Finding::Ok);
    }

    #[test]
    fn an_order_that_nobody_was_told_of_breaks_it() {
        let mut evidence = honest();
        evidence.counted.as_mut().unwrap().insert("pending_payment".to_owned(), 1);
        assert_eq!(judge(&evidence).finding, Finding::Broken);
        evidence.unresolved = 1;
        assert_eq!(judge(&evidence).finding, Finding::Unknown);
    }

    #[test]
    fn an_operator_who_counts_other_states_breaks_it() {
        let mut evidence = honest();
        let counted = evidence.counted.as_mut().unwrap();
        counted.insert("paid".to_owned(), 2);
        counted.remove("expired");
        assert_eq!(judge(&evidence).finding, Finding::Broken);
    }

    #[test]
    fn an_order_that_is_still_queued_is_unknown() {
        let mut evidence = honest();
        evidence.orders[2].end = End::Status(Status::Queued);
        let counted = evidence.counted.as_mut().unwrap();
        counted.remove("expired");
        counted.insert("queued".to_owned(), 1);
        assert_eq!(judge(&evidence).finding, Finding::Unknown);
    }
}
