//! Tests of copies that instances share (F2, F4).

#[path = "machine.rs"]
mod machine;

use futures::future::join_all;

use self::machine::Machine;
use super::*;
use crate::ports::{RedisArg, RedisValue};

const SHARED: SharedValue<'_> = SharedValue {
    key: "copy",
    lease_key: "lease",
    lease_ms: 1_000,
    fresh_ms: Some(600),
    max_age_ms: 2_000,
    max_wait_ms: 500,
};

impl Machine {
    /// Gets the value; a fetch returns `fetched` after 100 ms.
    async fn get(&self, shared: &SharedValue<'_>, fetched: Result<i64, StoreError>) -> Result<i64, StoreError> {
        let fetch = async || {
            self.fetches.set(self.fetches.get() + 1);
            self.sleep(100).await;
            fetched
        };
        shared.get(self, self, |_| true, fetch).await
    }
}

fn away() -> StoreError {
    StoreError::LedgerUnavailable("away".to_owned())
}

#[test]
fn a_copy_is_used_while_it_is_fresh_and_fetched_again_after_that() {
    let machine = Machine::default();
    assert_eq!(Machine::run(machine.get(&SHARED, Ok(1))), Ok(1));
    machine.now.set(599);
    assert_eq!(Machine::run(machine.get(&SHARED, Ok(2))), Ok(1));
    // A sixth of the time is jitter.
    machine.now.set(701);
    assert_eq!(Machine::run(machine.get(&SHARED, Ok(2))), Ok(2));
    assert_eq!(machine.fetches.get(), 2);
}

#[test]
fn copies_that_are_written_together_become_stale_at_different_times_within_a_sixth() {
    let mut ends = Vec::new();
    for random in [0, 250, 500, 998] {
        let machine = Machine::default();
        machine.random.set(random);
        assert_eq!(Machine::run(machine.get(&SHARED, Ok(1))), Ok(1));
        ends.push(Machine::run(read::<_, i64>(&machine, "copy")).fresh_until.0);
    }
    assert_eq!(ends, [600, 625, 650, 699]);
}

#[test]
fn a_request_waits_500_ms_for_another_and_then_fetches_by_itself() {
    let machine = Machine::default();
    *machine.lease.borrow_mut() = Some((b"a request that hangs".to_vec(), 60_000));
    assert_eq!(Machine::run(machine.get(&SHARED, Ok(1))), Ok(1));
    assert!((500..700).contains(&machine.now.get()), "{:?}", machine.now);
}

#[test]
fn a_stale_copy_is_used_while_another_request_fetches_unless_it_is_too_old() {
    for (now, expected) in [(2_000, 1), (2_001, 2)] {
        let machine = Machine::default();
        assert_eq!(Machine::run(machine.get(&SHARED, Ok(1))), Ok(1));
        *machine.lease.borrow_mut() = Some((b"another".to_vec(), 60_000));
        machine.now.set(now);
        assert_eq!(Machine::run(machine.get(&SHARED, Ok(2))), Ok(expected), "at {now}");
    }
}

#[test]
fn a_stale_copy_is_used_while_the_ledger_is_away() {
    let machine = Machine::default();
    assert_eq!(Machine::run(machine.get(&SHARED, Ok(1))), Ok(1));
    machine.now.set(1_000);
    assert_eq!(Machine::run(machine.get(&SHARED, Err(away()))), Ok(1));
    // The lease is kept until it expires: the ledger is tried once in that time.
    assert_eq!(Machine::run(machine.get(&SHARED, Err(away()))), Ok(1));
    assert_eq!(machine.fetches.get(), 2);
}

#[test]
fn without_a_copy_one_request_in_a_second_meets_the_ledger_that_is_away() {
    let machine = Machine::default();
    for now in [0, 500, 1_000] {
        machine.now.set(now);
        assert_eq!(Machine::run(machine.get(&SHARED, Err(away()))), Err(away()));
    }
    assert_eq!(machine.fetches.get(), 1);
    machine.now.set(2_200);
    assert_eq!(Machine::run(machine.get(&SHARED, Ok(1))), Ok(1));
}

#[test]
fn without_a_time_a_copy_serves_only_requests_that_began_before_its_fetch() {
    let shared = SharedValue { fresh_ms: None, max_age_ms: -1, ..SHARED };
    let machine = Machine::default();
    let results = Machine::run(join_all((0..3).map(|value| machine.get(&shared, Ok(value)))));
    assert_eq!(results[0], Ok(0));
    machine.now.set(machine.now.get() + 1);
    assert_eq!(Machine::run(machine.get(&shared, Ok(7))), Ok(7));
}

#[test]
fn a_copy_of_a_host_whose_clock_is_ahead_is_used_only_if_it_is_a_little_ahead() {
    let uses_last = SharedValue { max_age_ms: i64::MAX, ..SHARED };
    let audit = SharedValue { fresh_ms: None, max_age_ms: -1, ..SHARED };
    for (shared, ahead, first, expected) in [
        (&SHARED, 3_600_000, Ok(1), 2),
        (&SHARED, 3_600_000, Err(away()), 2),
        (&uses_last, 3_600_000, Ok(1), 2),
        (&uses_last, 3_600_000, Err(away()), 2),
        (&audit, 3_600_000, Ok(1), 2),
        (&audit, 3_600_000, Err(away()), 2),
        (&SHARED, 200, Ok(1), 1),
    ] {
        let machine = Machine::default();
        machine.now.set(ahead);
        assert_eq!(Machine::run(machine.get(shared, first.clone())), first);
        machine.now.set(0);
        *machine.lease.borrow_mut() = None;
        assert_eq!(Machine::run(machine.get(shared, Ok(2))), Ok(expected), "{ahead} ms ahead");
    }
}
