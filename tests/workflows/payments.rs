//! Tests of the slice `payments`: checkout, callbacks, refunds.

pub mod bounced_refunds;
pub mod checkout;
pub mod crash_payments;
pub mod lost_payments;
pub mod manual_refunds;
pub mod overpayments;
pub mod payment_service;
pub mod refunds_at_provider;
pub mod slow_callbacks;
pub mod transitions;
