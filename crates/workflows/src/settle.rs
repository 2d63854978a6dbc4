//! Brings Redis along with what the ledger has decided (`lua/settle.lua`); safe to repeat.

use domain::{
    ids::{ActivityId, OrderNo},
    order::Status,
    time::Millis,
};

use crate::{
    WRITERS,
    keys::Keys,
    ports::{Redis, StoreError},
    script::SETTLE,
};

/// Seconds for which Redis keeps a closed order: longer than a ticket lives, so that a ticket never comes back to life.
pub const CLOSED_KEPT_SECONDS: i64 = 3_600;

/// Moves in one call at most.
pub const BATCH: usize = 500;

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
    pub status: Status,
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
pub enum Settled {
    /// It moved.
    Moved,
    /// It was there already.
    Same,
    /// Redis knows something newer.
    Stale,
    /// Redis has no record of the order.
    Absent,
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
    moves: &[Transition],
) -> Result<Vec<Settled>, StoreError> {
    let keys = Keys::of(activity);
    let mut settled = Vec::with_capacity(moves.len());
    for batch in moves.chunks(BATCH) {
        let mut names: Vec<_> = ["gate", "orders", "queue", "stats"].map(|name| keys.named(name)).into();
        let mut args = vec![
            keys.prefix().as_bytes().to_vec(),
            CLOSED_KEPT_SECONDS.to_string().into_bytes(),
            WRITERS.as_bytes().to_vec(),
        ];
        for alike in batch.chunk_by(|one, next| one.state == next.state) {
            let OrderState { epoch, status, live, pay_by, paid_at, reason } = &alike[0].state;
            args.push(alike.len().to_string().into_bytes());
            args.push(epoch.to_string().into_bytes());
            args.push(status.as_str().as_bytes().to_vec());
            args.push(vec![if *live { b'1' } else { b'0' }]);
            args.push(pay_by.0.to_string().into_bytes());
            args.push(paid_at.0.to_string().into_bytes());
            args.push(reason.as_bytes().to_vec());
            for step in alike {
                names.push(keys.order(step.order_no.ulid()));
                args.push(step.stream_id.as_bytes().to_vec());
            }
        }
        for word in SETTLE.run(redis, names, args).await?.text()?.split(' ') {
            settled.push(match word {
                "moved" => Settled::Moved,
                "same" => Settled::Same,
                "stale" => Settled::Stale,
                "absent" => Settled::Absent,
                "fenced" => Settled::Fenced,
                word => return Err(StoreError::Unreadable(format!("settle answered {word:?}"))),
            });
        }
    }
    Ok(settled)
}
