//! E3 and E4: who walks away loses the order in time, and a confirmed cancellation stays one.

use super::{Evidence, Findings, Line};
use crate::simulation::observations::Claim;
use crate::wire::Status;

pub(super) fn judge(evidence: &Evidence) -> Line {
    let mut findings = Findings::default();
    let (mut expired, mut cancelled) = (0, 0);
    for order in &evidence.orders {
        match order.status() {
            Some(Status::PendingPayment) => {
                findings.broken(format!("{} is still pending_payment after its time", order.order_no));
            }
            Some(Status::Expired) => expired += 1,
            Some(Status::Cancelled) if order.cancellation == Claim::No => {
                findings.broken(format!("{} is cancelled, but nobody asked for it", order.order_no));
            }
            Some(Status::Cancelled) => cancelled += 1,
            Some(status) if order.cancellation == Claim::Yes => {
                findings.broken(format!("{} was cancelled and is {status}", order.order_no));
            }
            _ => {}
        }
    }
    findings.line("E3", "unpaid orders ended in time", format!("{expired} expired, {cancelled} cancelled"))
}

#[cfg(test)]
mod tests {
    use super::super::super::observations::{End, honest};
    use super::super::Finding;
    use super::*;

    #[test]
    fn an_order_that_never_expires_breaks_it() {
        let mut evidence = honest();
        evidence.orders[2].end = End::Status(Status::PendingPayment);
        assert_eq!(judge(&evidence).finding, Finding::Broken);
    }

    #[test]
    fn a_cancelled_order_that_is_paid_in_the_end_breaks_it() {
        let mut evidence = honest();
        evidence.orders[1].end = End::Status(Status::Paid);
        assert_eq!(judge(&evidence).finding, Finding::Broken);
    }

    #[test]
    fn a_cancellation_that_nobody_asked_for_breaks_it() {
        let mut evidence = honest();
        evidence.orders[2].end = End::Status(Status::Cancelled);
        assert_eq!(judge(&evidence).finding, Finding::Broken);
    }
}
