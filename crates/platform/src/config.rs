//! Spin variables, read once per instance. A component can read only the variables that `spin.toml` grants it.
//!
//! A function whose variables are wrong refuses to serve. The log names the variable and the fault; the response does
//! not, because any client can ask for it.

use std::{cell::RefCell, collections::HashMap, rc::Rc};

use domain::{
    http::problem::{Code, Problem},
    log_limit::LogLimit,
    secret,
};
use spin_sdk::variables;

use crate::{clock, log};

thread_local! {
    static VALUES: RefCell<HashMap<&'static str, Rc<str>>> = RefCell::default();
    /// Any client can send requests that are refused, by variable.
    static REFUSALS: RefCell<HashMap<String, LogLimit>> = RefCell::default();
}

/// Returns a variable's value; empty if it is not set or not granted.
pub async fn get(name: &'static str) -> Rc<str> {
    if let Some(value) = VALUES.with_borrow(|values| values.get(name).cloned()) {
        return value;
    }
    match variables::get(name).await {
        Ok(value) => {
            let value: Rc<str> = value.into();
            VALUES.with_borrow_mut(|values| values.insert(name, value.clone()));
            value
        }
        Err(_) => Rc::from(""),
    }
}

/// Returns a secret, or the space-separated secrets, of a variable (G7).
///
/// # Errors
/// `not_ready` if it is empty or weak; the variable and the weakness are logged.
pub async fn secret(name: &'static str) -> Result<Rc<str>, Problem> {
    checked(name, secret::fault).await
}

/// Returns the `whsec_` secrets of a variable (E2, G7): all of them must be strong.
///
/// # Errors
/// Those of [`secret`].
pub async fn webhook_secrets(name: &'static str) -> Result<Rc<str>, Problem> {
    checked(name, secret::webhook_fault).await
}

/// Returns Stripe's endpoint secrets of a variable: all of them must be strong.
///
/// # Errors
/// Those of [`secret`].
pub async fn stripe_secrets(name: &'static str) -> Result<Rc<str>, Problem> {
    checked(name, secret::stripe_fault).await
}

async fn checked(name: &'static str, fault: fn(&str) -> Option<&'static str>) -> Result<Rc<str>, Problem> {
    let value = get(name).await;
    fault(&value).map_or(Ok(value), |fault| Err(misconfigured(name, fault)))
}

/// Logs, once a minute, why a variable makes the function refuse to serve, and returns the refusal.
#[must_use]
pub fn misconfigured(variable: &str, reason: &str) -> Problem {
    let number = REFUSALS.with_borrow_mut(|refusals| {
        let limit = refusals.entry(variable.to_owned()).or_insert_with(|| LogLimit::new(60_000));
        limit.count(clock::now())
    });
    if let Some(number) = number {
        let fields = [("variable", variable.into()), ("because", reason.into()), ("number", number.into())];
        log::error("refusing to serve", &fields);
    }
    Problem::new(Code::NotReady, "This service is not configured; its log says why.").retry_after(60)
}
