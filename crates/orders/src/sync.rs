//! Applies order transitions of the ledger to Redis (`lua/sync.lua`).
//!
//! Repeating a transition changes nothing. A change stays marked as unsynced in the ledger until a sweep finds, seconds
//! later, that Redis still has it: Redis may lose its last writes.

use domain::ids::ActivityId;
use sale::line;
use serde::{Deserialize, Serialize};
use stores::{
    keys::{Keys, WRITER_GROUP},
    ports::{Redis, StoreError},
};

use crate::{
    ledger::order_rows::OrderRow,
    order_record::{OrderState, Transition},
    scripts::SYNC,
};

/// Seconds for which Redis keeps a closed order. Longer than a ticket's lifetime, so that a used ticket cannot make a
/// second order.
pub const CLOSED_ORDER_TTL_SECONDS: i64 = 3_600;

// B3: the record of an order outlives its ticket, which could make a second order otherwise.
const _: () = assert!(CLOSED_ORDER_TTL_SECONDS * 1_000 > domain::ticket::MAX_LIFETIME_MS);

/// Maximum number of transitions in one script call.
pub const BATCH_SIZE: usize = 500;

/// Calls that offer what one batch of transitions returned to the stock: each order of it may have had several units.
const OFFER_BATCHES: usize = 20;

/// Result of one transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SyncOutcome {
    /// Redis now has the new state.
    Applied,
    /// Redis has had the new state for seconds: a crash of Redis would not lose it.
    AlreadyApplied,
    /// Redis has the new state, and may still lose it.
    Recent,
    /// Redis has a later state, which stays.
    Stale,
    /// Redis has no record of the order in this epoch.
    NoRecord,
    /// Redis was rebuilt since the row was read, or is being rebuilt: read the row again and repeat.
    Fenced,
}

#[derive(Serialize)]
struct Options<'a> {
    closed_ttl: i64,
    group: &'a str,
    runs: Vec<Run<'a>>,
}

/// Consecutive transitions to the same state.
#[derive(Serialize)]
struct Run<'a> {
    epoch: i64,
    #[serde(flatten)]
    state: &'a OrderState,
    stream_ids: Vec<&'a str>,
}

/// Syncs the order of a row in Redis.
///
/// # Errors
/// `RedisUnavailable` or `RedisRefused`; the sweeper syncs the order.
pub async fn sync_order<R: Redis>(redis: &R, row: &OrderRow) -> Result<(), StoreError> {
    apply_transitions(redis, row.order.activity(), &[row.to_transition(String::new())]).await.map(|_| ())
}

/// Applies transitions of one activity, in order, [`BATCH_SIZE`] at a time. Returns one outcome per transition.
///
/// # Errors
/// `RedisUnavailable` or `RedisRefused`: some batches may have been applied. The sweeper applies the rest.
pub async fn apply_transitions<R: Redis>(
    redis: &R,
    activity: &ActivityId,
    transitions: &[Transition],
) -> Result<Vec<SyncOutcome>, StoreError> {
    let keys = Keys::of(activity);
    let mut outcomes = Vec::with_capacity(transitions.len());
    for batch in transitions.chunks(BATCH_SIZE) {
        let mut script_keys =
            keys.all(["gate", "orders", "stats", "queued", "holders", "index", "rate:all", "entries"]);
        script_keys.extend(batch.iter().map(|transition| keys.order(transition.order_no.ulid())));
        let runs = batch.chunk_by(|one, next| one.state == next.state).map(|group| Run {
            epoch: group[0].state.epoch,
            state: &group[0].state,
            stream_ids: group.iter().map(|transition| transition.stream_id.as_str()).collect(),
        });
        let options = Options { closed_ttl: CLOSED_ORDER_TTL_SECONDS, group: WRITER_GROUP, runs: runs.collect() };
        let mut reply = SYNC.run_with(redis, script_keys, &options).await?;
        let came_back = reply.is("free", "synced")?;
        for _ in batch {
            outcomes.push(reply.parse()?);
        }
        if came_back {
            // What is not offered now, the next sweep offers.
            let _ = line::offer(redis, activity, OFFER_BATCHES).await;
        }
    }
    Ok(outcomes)
}

#[cfg(test)]
mod tests {
    use domain::order::OrderStatus;

    #[test]
    fn the_script_allows_every_sequence_of_transitions() {
        let script = include_str!("../lua/sync.lua");
        let table = script.split("local allowed_next = {").nth(1).and_then(|rest| rest.split("\n}").next());
        let mut allowed = Vec::new();
        for line in table.expect("a table").lines().filter(|line| !line.is_empty()) {
            let (from, words) = line.split_once(" = ").expect("a status and those after it");
            let parse = |word: &str| OrderStatus::parse(word.trim()).expect("a status");
            let next = words.split('\'').nth(1).expect("words").split_whitespace();
            allowed.extend(next.map(|to| (parse(from), parse(to))));
        }
        for from in OrderStatus::ALL {
            for to in OrderStatus::ALL {
                assert_eq!(allowed.contains(&(from, to)), from.can_reach(to), "{from:?} to {to:?}");
            }
        }
    }

    #[test]
    fn units_are_reacquired_for_a_released_order_that_may_become_paid() {
        let script = include_str!("../lua/reacquire.lua");
        for status in OrderStatus::ALL {
            let is_accepted = script.contains(&format!("status ~= '{}'", status.as_str()));
            let is_released = status != OrderStatus::PendingPayment;
            assert_eq!(is_accepted, is_released && status.can_become(OrderStatus::Paid), "{status:?}");
        }
    }
}
