//! The settings of this instance. A variable is read once, and a setting is parsed by the first request that needs it.
//!
//! A function whose variables are wrong refuses to serve. The log names the variable and the fault; the response does
//! not, because any client can ask for it.

use std::{
    any::{Any, TypeId},
    cell::RefCell,
    collections::{BTreeSet, HashMap},
    rc::Rc,
};

use domain::{
    http::problem::{Code, Problem},
    log_limit::LogLimit,
};
use spin_sdk::variables;

use crate::{clock, log};

pub use domain::settings::*;

thread_local! {
    static VALUES: RefCell<HashMap<&'static str, Rc<str>>> = RefCell::default();
    /// The settings that have no fault, by type and parser.
    static PARSED: RefCell<HashMap<(TypeId, usize), Rc<dyn Any>>> = RefCell::default();
    /// Any client can send requests that are refused, by variable.
    static REFUSALS: RefCell<HashMap<&'static str, LogLimit>> = RefCell::default();
}

/// Returns a setting.
///
/// # Errors
/// `not_ready` if a variable is missing, weak or wrong, as [`refusal`].
pub async fn load<T: 'static>(parser: Parser<T>) -> Result<Rc<T>, Problem> {
    find(parser).await.map_err(|fault| refusal(&fault))
}

/// As [`load`], for a caller that serves without the setting.
///
/// # Errors
/// The fault, which is not logged.
pub async fn find<T: 'static>(parser: Parser<T>) -> Result<Rc<T>, Fault> {
    // Parsers with one address have the same code, so the settings of one type are the same.
    let key = (TypeId::of::<T>(), parser as usize);
    if let Some(Ok(setting)) = PARSED.with_borrow(|parsed| parsed.get(&key).cloned()).map(Rc::downcast) {
        return Ok(setting);
    }
    // Parses with the values that were read, reads what the parser asked for beside them, and parses again.
    loop {
        let unread = RefCell::new(BTreeSet::new());
        let value = |name| {
            VALUES.with_borrow(|values| values.get(name).cloned()).unwrap_or_else(|| {
                unread.borrow_mut().insert(name);
                Rc::default()
            })
        };
        let parsed = parser(&Variables(&value));
        let unread = unread.take();
        if unread.is_empty() {
            let setting = Rc::new(parsed?);
            PARSED.with_borrow_mut(|parsed| parsed.insert(key, setting.clone()));
            return Ok(setting);
        }
        for name in unread {
            let value = match variables::get(name).await {
                Err(variables::Error::Undefined(_)) => String::new(),
                value => value.map_err(|error| Fault::new(name, format!("cannot be read: {error}")))?,
            };
            VALUES.with_borrow_mut(|values| values.insert(name, value.into()));
        }
    }
}

/// Logs, once a minute, why a variable makes the function refuse to serve, and returns the refusal.
#[must_use]
pub fn refusal(fault: &Fault) -> Problem {
    let number = REFUSALS.with_borrow_mut(|refusals| {
        refusals.entry(fault.variable).or_insert_with(|| LogLimit::new(60_000)).count(clock::now())
    });
    if let Some(number) = number {
        let because = (*fault.reason).into();
        let fields = [("variable", fault.variable.into()), ("because", because), ("number", number.into())];
        log::error("refusing to serve", &fields);
    }
    Problem::new(Code::NotReady, "This service is not configured; its log says why.").retry_after(60)
}
