//! Spin variables, read once per instance. A component can read only the variables that `spin.toml` grants it.

use std::{cell::RefCell, collections::HashMap, rc::Rc};

use domain::{
    problem::{Code, Problem},
    secret,
};
use spin_sdk::variables;

use crate::log;

thread_local! {
    static VALUES: RefCell<HashMap<&'static str, Rc<str>>> = RefCell::default();
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
    let value = get(name).await;
    match secret::fault(&value) {
        None => Ok(value),
        Some(weakness) => {
            log::error("refusing to serve", &[("variable", name.into()), ("because", weakness.into())]);
            Err(Problem::new(
                Code::NotReady,
                format!("The variable {name} {weakness}. Set it to 32 random bytes or more, and start again."),
            )
            .retry_after(60))
        }
    }
}
