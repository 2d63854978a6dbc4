//! E3 and E4: unpaid orders expire in time, and a confirmed cancellation is final.

use super::findings::{CheckResult, Findings};
use crate::{
    simulation::observations::{Confirmation, Observations},
    wire::OrderStatus,
};

pub(super) fn check(observations: &Observations) -> CheckResult {
    let mut findings = Findings::default();
    let (mut expired, mut cancelled) = (0, 0);
    // The end of an entry of the line is judged by I9.
    for order in observations.orders.iter().filter(|order| !order.is_entry()) {
        match order.status() {
            Some(OrderStatus::PendingPayment) => {
                findings.broken(format!("{} is still pending_payment after its time", order.order_no));
            }
            Some(OrderStatus::Expired) => expired += 1,
            Some(OrderStatus::Cancelled) if order.cancellation == Confirmation::No => {
                findings.broken(format!("{} is cancelled, but no buyer asked for it", order.order_no));
            }
            Some(OrderStatus::Cancelled) => cancelled += 1,
            Some(status) if order.cancellation == Confirmation::Yes => {
                findings.broken(format!("{} was cancelled and is {status}", order.order_no));
            }
            _ => {}
        }
    }
    findings.into_result("E3", "unpaid orders ended in time", format!("{expired} expired, {cancelled} cancelled"))
}

#[cfg(test)]
mod tests {
    use super::super::findings::{Finding, expect};
    use super::*;
    use crate::simulation::observations::LastSeen;

    #[test]
    fn an_order_that_never_expires_breaks_it() {
        expect(Finding::Broken, check, |sale| sale.orders[2].end = LastSeen::Status(OrderStatus::PendingPayment));
    }

    #[test]
    fn a_cancelled_order_that_ends_as_paid_breaks_it() {
        expect(Finding::Broken, check, |sale| sale.orders[1].end = LastSeen::Status(OrderStatus::Paid));
    }

    #[test]
    fn a_cancellation_without_a_request_breaks_it() {
        expect(Finding::Broken, check, |sale| sale.orders[2].end = LastSeen::Status(OrderStatus::Cancelled));
    }
}
