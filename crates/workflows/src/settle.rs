//! Brings Redis along with what the ledger has decided (`lua/settle.lua`); safe to repeat.

use domain::{
    ids::{ActivityId, OrderNo},
    order::OrderStatus,
    time::Millis,
};

use crate::{
    WRITER_GROUP,
    keys::Keys,
    ports::{Redis, StoreError},
    script::SETTLE,
};

/// Seconds for which Redis keeps a closed order: longer than a ticket lives, so that a ticket never comes back to life.
pub const CLOSED_ORDER_TTL_SECONDS: i64 = 3_600;

/// Moves in one call at most.
pub const BATCH_SIZE: usize = 500;

/// What the ledger has decided of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// Which order.
    pub order_no: OrderNo,
    /// Where it stands now.
    pub state: OrderState,
    /// The stream message to acknowledge with it, if it came by one.
    pub stream_id: String,
}

/// Where an order stands in the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderState {
    /// The sale's epoch when the ledger was read.
    pub epoch: i64,
    /// Its status.
    pub status: OrderStatus,
    /// Whether it holds units.
    pub live: bool,
    /// Until when it can be paid.
    pub pay_by: Millis,
    /// When it was paid; 0 for not yet.
    pub paid_at: Millis,
    /// Why.
    pub reason: String,
}

/// What Redis made of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettleOutcome {
    /// It moved.
    Applied,
    /// It was there already.
    AlreadyApplied,
    /// Redis knows something newer.
    Stale,
    /// Redis has no record of the order.
    NoRecord,
    /// Redis was rebuilt since the ledger was read, or is being rebuilt: read it again.
    Fenced,
}

/// Settles moves of one activity, in order, in batches.
///
/// # Errors
/// [`StoreError`] of Redis; what was not settled stays marked in the ledger and is settled by the sweeper.
pub async fn apply_transitions<R: Redis>(
    redis: &R,
    activity: &ActivityId,
    transitions: &[Transition],
) -> Result<Vec<SettleOutcome>, StoreError> {
    let keys = Keys::of(activity);
    let mut outcomes = Vec::with_capacity(transitions.len());
    for batch in transitions.chunks(BATCH_SIZE) {
        let mut script_keys: Vec<_> = ["gate", "orders", "queue", "stats"].map(|name| keys.named(name)).into();
        let mut args = vec![
            keys.prefix().as_bytes().to_vec(),
            CLOSED_ORDER_TTL_SECONDS.to_string().into_bytes(),
            WRITER_GROUP.as_bytes().to_vec(),
        ];
        for group in batch.chunk_by(|one, next| one.state == next.state) {
            let OrderState { epoch, status, live, pay_by, paid_at, reason } = &group[0].state;
            args.push(group.len().to_string().into_bytes());
            args.push(epoch.to_string().into_bytes());
            args.push(status.as_str().as_bytes().to_vec());
            args.push(vec![if *live { b'1' } else { b'0' }]);
            args.push(pay_by.0.to_string().into_bytes());
            args.push(paid_at.0.to_string().into_bytes());
            args.push(reason.as_bytes().to_vec());
            for transition in group {
                script_keys.push(keys.order(transition.order_no.ulid()));
                args.push(transition.stream_id.as_bytes().to_vec());
            }
        }
        for word in SETTLE.run(redis, script_keys, args).await?.text()?.split(' ') {
            outcomes.push(match word {
                "moved" => SettleOutcome::Applied,
                "same" => SettleOutcome::AlreadyApplied,
                "stale" => SettleOutcome::Stale,
                "absent" => SettleOutcome::NoRecord,
                "fenced" => SettleOutcome::Fenced,
                word => return Err(StoreError::Malformed(format!("settle answered {word:?}"))),
            });
        }
    }
    Ok(outcomes)
}
