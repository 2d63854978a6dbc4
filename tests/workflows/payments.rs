//! Tests of the slice `payments`: checkout, callbacks, refunds.

pub mod bounced_refunds;
pub mod checkout;
pub mod crash_operator_refunds;
pub mod crash_payments;
pub mod delivery;
pub mod disputes;
pub mod free_orders;
pub mod lost_payments;
pub mod manual_refunds;
pub mod more_time;
pub mod operator_refunds;
pub mod overpayments;
pub mod partial_refunds;
pub mod payment_service;
pub mod receipts;
pub mod refund_case;
pub mod refunds_at_provider;
pub mod slow_callbacks;
pub mod transitions;
pub mod without_redis;

use domain::{ids::OrderNo, money::Money, webhook::ProviderCallback};

/// What a provider reports about a payment of one unit's price. The callback's id is `<kind>-<payment>`.
pub fn report(kind: &str, order_no: &OrderNo, payment: &str) -> ProviderCallback {
    ProviderCallback {
        id: format!("{kind}-{payment}"),
        kind: kind.to_owned(),
        order_no: order_no.to_string(),
        payment_id: payment.to_owned(),
        money: Money::new(100, "EUR"),
        ..ProviderCallback::default()
    }
}
