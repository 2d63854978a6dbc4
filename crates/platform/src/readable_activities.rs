//! Takes the activities that can be read from a list, and logs the others.

use domain::log_limit::LogLimit;
use sale::ledger::activities::List;

use crate::{clock, log};

thread_local! {
    static LIMIT: LogLimit = const { LogLimit::new(60_000) };
}

/// Returns the activities of a list. Logs, once a minute, the ids of those that the list leaves out.
pub fn of<T>(list: List<T>) -> Vec<T> {
    if !list.unreadable.is_empty()
        && let Some(number) = LIMIT.with(|limit| limit.count(clock::now()))
    {
        let fields = [("activities", list.unreadable.into()), ("number", number.into())];
        log::error("activities left out of a list: their specs cannot be read", &fields);
    }
    list.activities
}
