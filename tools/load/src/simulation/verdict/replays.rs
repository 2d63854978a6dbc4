//! I7 and B3: one ticket makes one order, whoever asks how often, and a lost answer can be asked for again.

use std::collections::{BTreeMap, BTreeSet};

use super::{Evidence, Findings, Line};

pub(super) fn judge(evidence: &Evidence) -> Line {
    let mut findings = Findings::default();
    let mut owners: BTreeMap<&str, usize> = BTreeMap::new();
    for (ticket, answers) in evidence.tickets.iter().enumerate() {
        let distinct: BTreeSet<&str> = answers.iter().map(String::as_str).collect();
        if distinct.len() > 1 {
            findings.broken(format!("one ticket made {distinct:?}"));
        }
        for order_no in distinct {
            if owners.insert(order_no, ticket).is_some() {
                findings.broken(format!("{order_no} was given to two tickets"));
            }
        }
    }
    for order_no in &evidence.denied_winners {
        findings.broken(format!("{order_no} exists, but its ticket was refused when it asked again"));
    }
    let repeats: usize = evidence.tickets.iter().map(|answers| answers.len().saturating_sub(1)).sum();
    findings.line(
        "I7",
        "a ticket makes one order",
        format!("{} order numbers, {repeats} repeated requests", owners.len()),
    )
}

#[cfg(test)]
mod tests {
    use super::super::super::observations::honest;
    use super::super::Finding;
    use super::*;

    #[test]
    fn a_ticket_with_two_orders_breaks_it() {
        let mut evidence = honest();
        evidence.tickets[0].push("s.9".to_owned());
        assert_eq!(judge(&evidence).finding, Finding::Broken);
    }

    #[test]
    fn an_order_number_that_two_buyers_got_breaks_it() {
        let mut evidence = honest();
        evidence.tickets[1] = vec!["s.1".to_owned()];
        let line = judge(&evidence);
        assert_eq!(line.finding, Finding::Broken);
        assert_eq!(line.numbers, "s.1 was given to two tickets");
    }

    #[test]
    fn a_winner_who_is_told_otherwise_after_a_lost_answer_breaks_it() {
        let mut evidence = honest();
        evidence.denied_winners.push("s.2".to_owned());
        assert_eq!(judge(&evidence).finding, Finding::Broken);
    }
}
