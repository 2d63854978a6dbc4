//! Deletes rehearsals (G21), whose orders sweeps then erase without waiting for `retention_days`.

use domain::{activity::ActivityState, time::Millis};
use payments::ledger::callback_outcomes::unparked_outcomes;
use sale::ledger::{activities::Activity, epochs};
use stores::{
    keys::Keys,
    ledger::row_reader::RowReader,
    ports::{Redis, Sql, StoreError},
    reply::Reply,
};

use super::{CONCURRENT_CHANGE, DeleteOutcome, OperationOutcome, OperatorContext};
use crate::upkeep::erasure::bounds;

/// What may be open of a rehearsal, in the order of the statement's columns.
const OPEN: [&str; 8] = [
    "orders that wait for payment: wait, or cancel them",
    "orders that are being refunded: wait",
    "orders with a payment that is not the sandbox's: refund them",
    "callbacks that wait or are parked: see the inbox",
    "refunds that the provider has not confirmed: wait",
    "events that are not delivered: wait",
    "open disputes: settle them at the provider",
    "payment pages that the provider has not closed: wait",
];

impl<R: Redis, S: Sql> OperatorContext<'_, R, S> {
    /// Deletes a closed rehearsal of which nothing is alive, and whose payments were the sandbox's or were given back.
    pub async fn delete_rehearsal(&self, old: &Activity) -> Result<DeleteOutcome, StoreError> {
        let conflict = |detail: String| Ok(DeleteOutcome::Conflict(detail));
        if old.state != ActivityState::Closed {
            return conflict(format!("The rehearsal is {}: close it first.", old.state.as_str()));
        }
        // Redis may not know yet that it is closed, and would take orders.
        match self.set_state(&old.id, ActivityState::Closed).await? {
            OperationOutcome::Done(_) | OperationOutcome::Unchanged(_) => {}
            _ => return conflict(CONCURRENT_CHANGE.to_owned()),
        }
        let queued = self.redis.command("HLEN", vec![Keys::of(&old.id).named("queued").into()]).await?;
        let mut open = vec![(Reply::new(queued).int()?, "queued orders: wait")];
        let [start, end] = bounds(&old.id);
        let statement =
            format!(include_str!("../../../sql/erasure/open_rehearsal.sql"), unparked_outcomes = unparked_outcomes());
        let rows = self.sql.run(&statement, vec![old.id.as_str().into(), start, end]).await?;
        let mut row = RowReader::new(rows.into_iter().next().unwrap_or_default());
        for what in OPEN {
            open.push((row.int()?, what));
        }
        let open: Vec<_> =
            open.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
        if !open.is_empty() {
            return conflict(format!("The rehearsal has {}.", open.join("; ")));
        }
        // Its id may be used again: the gate that is left in Redis counts nothing for the sale of then.
        let epoch = epochs::load(self.sql, &old.id).await?;
        if epochs::raise(self.sql, &old.id, epoch, epoch, Millis(0)).await?.is_none() {
            return conflict(CONCURRENT_CHANGE.to_owned());
        }
        let mark = "UPDATE activities SET state = 'erasing', version = version + 1 \
             WHERE id = ?1 AND state = 'closed' AND version = ?2 RETURNING id";
        let marked = self.sql.run(mark, vec![old.id.as_str().into(), old.version.into()]).await?;
        if marked.is_empty() { conflict(CONCURRENT_CHANGE.to_owned()) } else { Ok(DeleteOutcome::Deleted) }
    }
}
