//! One request fetches a value; meanwhile the others use the old one, or wait.

/// A value, and the requests that wait while one fetches it. A waiter `W` wakes its request when it is dropped.
pub struct SingleFlight<T, W> {
    /// What was fetched.
    pub value: T,
    /// `None` while no request fetches.
    waiters: Option<Vec<W>>,
}

/// What a request does about the value.
#[derive(Debug, PartialEq, Eq)]
pub enum Action<R> {
    /// Use this.
    Use(R),
    /// Fetch the value. Call [`SingleFlight::end`] when the fetch ends, however it ends.
    Fetch,
    /// Another request fetches: call [`SingleFlight::add_waiter`], wait, and enter again.
    Wait,
}

impl<T: Default, W> Default for SingleFlight<T, W> {
    fn default() -> Self {
        Self { value: T::default(), waiters: None }
    }
}

impl<T, W> SingleFlight<T, W> {
    /// Decides what a request does. `read` gets the value and whether a request fetches it now; it returns what to use,
    /// or `None` if the value must be fetched first.
    pub fn enter<R>(&mut self, read: impl FnOnce(&mut T, bool) -> Option<R>) -> Action<R> {
        match read(&mut self.value, self.waiters.is_some()) {
            Some(found) => Action::Use(found),
            None if self.waiters.is_some() => Action::Wait,
            None => {
                self.waiters = Some(Vec::new());
                Action::Fetch
            }
        }
    }

    /// Drops `waiter` when the fetch ends; at once if there is none.
    pub fn add_waiter(&mut self, waiter: W) {
        if let Some(waiters) = &mut self.waiters {
            waiters.push(waiter);
        }
    }

    /// Stores a value, also one that a request fetched because it had waited too long. Wakes the waiting requests.
    pub fn set(&mut self, value: T) {
        self.value = value;
        self.waiters.iter_mut().for_each(Vec::clear);
    }

    /// Ends the fetch. Wakes the waiting requests; without a value to use, the first of them fetches.
    pub fn end(&mut self) {
        self.waiters = None;
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    fn enter(flight: &mut SingleFlight<Option<i64>, Rc<()>>) -> Action<i64> {
        flight.enter(|value, _| *value)
    }

    #[test]
    fn requests_wait_until_the_fetch_ends_or_another_request_stores_a_value() {
        for (stored, ends) in [(None, true), (Some(1), true), (Some(1), false)] {
            let (mut flight, waiter) = (SingleFlight::default(), Rc::new(()));
            flight.add_waiter(waiter.clone());
            assert_eq!(Rc::strong_count(&waiter), 1, "nothing to wait for");
            assert_eq!([enter(&mut flight), enter(&mut flight)], [Action::Fetch, Action::Wait]);
            flight.add_waiter(waiter.clone());
            assert_eq!(Rc::strong_count(&waiter), 2);
            if stored.is_some() {
                flight.set(stored);
            }
            if ends {
                flight.end();
            }
            assert_eq!(Rc::strong_count(&waiter), 1);
            assert_eq!(enter(&mut flight), stored.map_or(Action::Fetch, Action::Use));
        }
    }
}
