//! The instance's [`InstanceCounts`] (B6, G2).

use std::cell::RefCell;

use domain::{http::problem::Code, ids::ActivityId, jwt::TokenError};
use sale::instance_counts::{InstanceCounts, Refusal};

use crate::http::ApiError;

thread_local! {
    static COUNTS: RefCell<InstanceCounts> = RefCell::default();
}

/// See [`InstanceCounts::record_abuse`].
pub fn record_abuse(activity: &ActivityId, ip: String) {
    COUNTS.with_borrow_mut(|counts| counts.record_abuse(activity, ip));
}

/// See [`InstanceCounts::record_refusal`].
pub fn record_refusal(activity: &ActivityId, code: Code) {
    COUNTS.with_borrow_mut(|counts| counts.record_refusal(activity, Refusal::Code(code)));
}

/// Counts a refused sign-in token by its reason.
pub fn record_refused_sign_in(activity: &ActivityId, error: TokenError) {
    COUNTS.with_borrow_mut(|counts| counts.record_refusal(activity, Refusal::SignIn(error.reason())));
}

/// Counts `error` if it is a refusal with a code.
pub fn record_error(activity: &ActivityId, error: &ApiError) {
    if let ApiError::Problem(problem) = error {
        record_refusal(activity, problem.code);
    }
}

/// See [`InstanceCounts::take`].
#[must_use]
pub fn take(activity: &ActivityId) -> Vec<(String, i64)> {
    COUNTS.with_borrow_mut(|counts| counts.take(activity))
}
