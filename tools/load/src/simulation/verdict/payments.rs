//! I6: each confirmed payment has a paid order or a refund, and no other order is paid.

use super::findings::{CheckResult, Findings};
use crate::{
    simulation::{
        observations::{Confirmation, LastSeen, Observations, ObservedOrder},
        plan::Intent,
    },
    wire::OrderStatus,
};

pub(super) fn check(observations: &Observations) -> CheckResult {
    let mut findings = Findings::default();
    let (mut paid, mut refunded) = (0, 0);
    for order in &observations.orders {
        let has_payment =
            matches!(order.status(), Some(OrderStatus::Paid | OrderStatus::Refunding | OrderStatus::Refunded));
        match order.payment {
            Confirmation::Yes if order.end == LastSeen::Unreadable => {
                findings.unknown(format!("{} was paid for and cannot be read", order.order_no));
            }
            Confirmation::Yes if !has_payment => {
                findings.broken(format!("{} was paid for and is {}", order.order_no, end_label(order)))
            }
            Confirmation::Yes
                if order.extra == Confirmation::Yes
                    && !observations.refunded_overpayments.contains(&order.order_no) =>
            {
                findings.broken(format!("{} was paid for twice, and nothing goes back", order.order_no));
            }
            Confirmation::Yes if order.refund == Confirmation::Yes && order.status() == Some(OrderStatus::Paid) => {
                findings.broken(format!("{} was to be paid back and is paid", order.order_no));
            }
            // If the first payment failed, the second may have paid the order.
            Confirmation::No if has_payment && order.extra == Confirmation::No => {
                findings.broken(format!("{} is {} without money", order.order_no, end_label(order)))
            }
            _ => {}
        }
        match order.status() {
            Some(OrderStatus::Paid) => paid += 1,
            Some(OrderStatus::Refunding | OrderStatus::Refunded) => refunded += 1,
            _ => {}
        }
    }
    let confirmed = observations.orders.iter().filter(|order| order.payment == Confirmation::Yes).count();
    let intending = observations.orders.iter().filter(|order| order.intent == Intent::Pay).count();
    if confirmed == 0 && intending > 0 {
        findings.unknown(format!("{intending} winners meant to pay, and not one could"));
    }
    findings.into_result(
        "I6",
        "paid for = paid or refunded",
        format!(
            "{confirmed} payments confirmed: {paid} paid, {refunded} refunded, {} second ones given back",
            observations.refunded_overpayments.len()
        ),
    )
}

fn end_label(order: &ObservedOrder) -> String {
    match order.end {
        LastSeen::Status(status) => status.to_string(),
        LastSeen::Missing => "gone".to_owned(),
        LastSeen::Unreadable => "unreadable".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::findings::{Finding, expect};
    use super::*;

    #[test]
    fn an_overpayment_or_a_refund_that_is_not_returned_breaks_it() {
        let overpaid = |sale: &mut Observations| sale.orders[0].extra = Confirmation::Yes;
        let returned = |sale: &mut Observations| {
            overpaid(sale);
            sale.refunded_overpayments.insert("s.1".to_owned());
        };
        let refund_requested = |sale: &mut Observations| {
            returned(sale);
            sale.orders[0].refund = Confirmation::Yes;
        };
        expect(Finding::Broken, check, overpaid);
        expect(Finding::Ok, check, returned);
        expect(Finding::Broken, check, refund_requested);
        expect(Finding::Ok, check, |sale| {
            refund_requested(sale);
            sale.orders[0].end = LastSeen::Status(OrderStatus::Refunded);
        });
    }

    #[test]
    fn a_paid_order_without_a_payment_breaks_it() {
        expect(Finding::Broken, check, |sale| sale.orders[2].end = LastSeen::Status(OrderStatus::Paid));
    }

    #[test]
    fn a_sale_without_confirmed_payments_is_unknown() {
        let numbers = expect(Finding::Unknown, check, |sale| {
            sale.orders[0].payment = Confirmation::Unknown;
            sale.orders[0].end = LastSeen::Status(OrderStatus::Expired);
        });
        assert_eq!(numbers, "1 winners meant to pay, and not one could");
    }

    #[test]
    fn a_payment_with_a_lost_response_may_end_either_way() {
        for end in [OrderStatus::Paid, OrderStatus::Expired].map(LastSeen::Status) {
            expect(Finding::Ok, check, |sale| {
                let lost = ObservedOrder { payment: Confirmation::Unknown, end, ..sale.orders[0].clone() };
                sale.orders.push(lost);
            });
        }
    }
}
