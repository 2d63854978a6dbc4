//! I6: money and goods agree: a confirmed payment is a paid order or a refund, and nothing else is paid.

use super::{Evidence, Findings, Line};
use crate::simulation::observations::{Claim, End, OrderSeen};
use crate::simulation::plan::Intent;
use crate::wire::Status;

pub(super) fn judge(evidence: &Evidence) -> Line {
    let mut findings = Findings::default();
    let (mut paid, mut refunded) = (0, 0);
    for order in &evidence.orders {
        let settled = matches!(order.status(), Some(Status::Paid | Status::Refunding | Status::Refunded));
        match order.payment {
            Claim::Yes if order.end == End::Unreadable => {
                findings.unknown(format!("{} was paid for and cannot be read", order.order_no));
            }
            Claim::Yes if !settled => {
                findings.broken(format!("{} was paid for and is {}", order.order_no, word(order)))
            }
            Claim::Yes if order.extra == Claim::Yes && !evidence.given_back.contains(&order.order_no) => {
                findings.broken(format!("{} was paid for twice, and nothing goes back", order.order_no));
            }
            Claim::Yes if order.refund == Claim::Yes && order.status() == Some(Status::Paid) => {
                findings.broken(format!("{} was to be paid back and is paid", order.order_no));
            }
            // A second payment may have been the only one.
            Claim::No if settled && order.extra == Claim::No => {
                findings.broken(format!("{} is {} without money", order.order_no, word(order)))
            }
            _ => {}
        }
        match order.status() {
            Some(Status::Paid) => paid += 1,
            Some(Status::Refunding | Status::Refunded) => refunded += 1,
            _ => {}
        }
    }
    let confirmed = evidence.orders.iter().filter(|order| order.payment == Claim::Yes).count();
    let willing = evidence.orders.iter().filter(|order| order.intent == Intent::Pay).count();
    if confirmed == 0 && willing > 0 {
        findings.unknown(format!("{willing} winners meant to pay, and not one could"));
    }
    findings.line(
        "I6",
        "paid for = paid or refunded",
        format!(
            "{confirmed} payments confirmed: {paid} paid, {refunded} refunded, {} second ones given back",
            evidence.given_back.len()
        ),
    )
}

fn word(order: &OrderSeen) -> String {
    match order.end {
        End::Status(status) => status.to_string(),
        End::Missing => "gone".to_owned(),
        End::Unreadable => "unreadable".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::observations::honest;
    use super::super::Finding;
    use super::*;

    #[test]
    fn money_without_an_order_breaks_it() {
        let mut evidence = honest();
        evidence.orders[0].end = End::Status(Status::Expired);
        let line = judge(&evidence);
        assert_eq!(line.finding, Finding::Broken);
        assert_eq!(line.numbers, "s.1 was paid for and is expired");
    }

    #[test]
    fn a_second_payment_that_stays_and_a_refund_that_never_comes_break_it() {
        let mut evidence = honest();
        evidence.orders[0].extra = Claim::Yes;
        assert_eq!(judge(&evidence).finding, Finding::Broken);
        evidence.given_back.insert(evidence.orders[0].order_no.clone());
        assert_eq!(judge(&evidence).finding, Finding::Ok);
        evidence.orders[0].refund = Claim::Yes;
        assert_eq!(judge(&evidence).finding, Finding::Broken);
        evidence.orders[0].end = End::Status(Status::Refunded);
        assert_eq!(judge(&evidence).finding, Finding::Ok);
    }

    #[test]
    fn goods_without_money_break_it() {
        let mut evidence = honest();
        evidence.orders[2].end = End::Status(Status::Paid);
        assert_eq!(judge(&evidence).finding, Finding::Broken);
    }

    #[test]
    fn a_provider_who_takes_no_money_proves_nothing() {
        let mut evidence = honest();
        evidence.orders[0].payment = Claim::Unknown;
        evidence.orders[0].end = End::Status(Status::Expired);
        let line = judge(&evidence);
        assert_eq!(line.finding, Finding::Unknown);
        assert_eq!(line.numbers, "1 winners meant to pay, and not one could");
    }

    #[test]
    fn a_lost_answer_of_the_provider_may_end_either_way() {
        let mut evidence = honest();
        let mut lost = evidence.orders[0].clone();
        lost.payment = Claim::Unknown;
        evidence.orders.push(lost);
        assert_eq!(judge(&evidence).finding, Finding::Ok);
        evidence.orders[3].end = End::Status(Status::Expired);
        assert_eq!(judge(&evidence).finding, Finding::Ok);
    }
}
