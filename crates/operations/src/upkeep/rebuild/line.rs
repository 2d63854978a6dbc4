//! The line in a rebuild (G5; H1): what only Redis has of it goes into the ledger, and the ledger's line into the new gate.

use domain::{
    ids::{OrderNo, UserId},
    money::Money,
    time::Millis,
};
use orders::{
    ledger::line_entries::{self, Cursor, Entry},
    sync::CLOSED_ORDER_TTL_SECONDS,
};
use sale::reserve::Position;
use serde_json::{Value, json};
use stores::{
    keys::Keys,
    ports::{Redis, Sql, StoreError},
    reply::unexpected,
};
use ulid::Ulid;

use super::{Progress, Rebuild, Step, Stop};
use crate::{
    scripts::{READ_LINE, RESTORE_LINE},
    upkeep::{budget::Timer, found_gate::FoundGate},
};

/// Users whose entries one call reads.
const STEP: &str = "500";

impl<R: Redis, S: Sql> Rebuild<'_, R, S> {
    /// Writes who waits into a ledger that does not know it: it was restored from a backup. What has ended there stays so.
    pub(super) async fn backfill_line(&self, now: Millis) -> Result<(), StoreError> {
        let (keys, mut cursor) = (Keys::of(self.activity), "0".to_owned());
        loop {
            let args = vec![cursor.as_str().into(), STEP.into()];
            let mut reply = READ_LINE.run(self.redis, keys.all(["entries"]), args).await?.after("found")?;
            cursor = reply.text()?;
            let mut entries = Vec::new();
            while reply.remaining() > 0 {
                let (user, ulid): (UserId, _) = (reply.parse()?, reply.text()?);
                let ulid = Ulid::from_string(&ulid).map_err(|_| unexpected(&ulid))?;
                entries.push(Entry {
                    order_no: OrderNo::new(self.activity.clone(), ulid),
                    user,
                    sku: reply.parse()?,
                    money: Money { amount: reply.int()?, currency: reply.text()? },
                    created_at: Millis(reply.int()?),
                    place: Position { epoch: reply.int()?, sequence: reply.int()? },
                    ended: String::new(),
                    again: false,
                });
            }
            if !entries.is_empty() {
                line_entries::write(self.sql, self.activity, &entries.iter().collect::<Vec<_>>(), now).await?;
            }
            if cursor == "0" {
                return Ok(());
            }
        }
    }

    /// Puts those who wait back into the line, and those who left lately beside it. Returns how far it came if the time is up.
    pub(super) async fn restore_line(&self, gate: &mut FoundGate, timer: &Timer) -> Result<Option<Progress>, Stop> {
        let (keys, batch_size) = (Keys::of(self.activity), timer.batch_size());
        line_entries::mark_offered(self.sql, self.activity).await?;
        let ended_since = timer.now().plus(-CLOSED_ORDER_TTL_SECONDS * 1_000);
        loop {
            let page =
                line_entries::load_page(self.sql, self.activity, &gate.line_after, ended_since, batch_size as i64)
                    .await?;
            let Some((last, _)) = page.last() else { return Ok(None) };
            let mut script_keys = keys.all(["gate", "stats", "entries"]);
            script_keys.extend(page.iter().map(|(entry, _)| keys.line(&entry.sku)));
            gate.line_after = Cursor::after(last);
            let entries = page.iter().map(|(entry, updated_at)| restored_entry(entry, *updated_at));
            let options = json!({
                "epoch": gate.epoch,
                "last": gate.line_after.to_string(),
                "entries": entries.collect::<Vec<_>>(),
            });
            if !RESTORE_LINE.run_with(self.redis, script_keys, &options).await?.is("restored", "fenced")? {
                return Err(Stop::Overtaken);
            }
            if page.len() < batch_size {
                return Ok(None);
            }
            if timer.is_up() {
                let FoundGate { epoch, restored, to_restore, .. } = *gate;
                return Ok(Some(Progress { step: Step::Restore, orders: restored, total: to_restore, epoch }));
            }
        }
    }
}

/// An entry as `crates/stores/lua/line.lua` keeps it: all texts.
fn restored_entry(entry: &Entry, updated_at: Millis) -> Value {
    let Entry { order_no, user, sku, money, created_at, place, ended, .. } = entry;
    let state = if ended.is_empty() { "waiting" } else { ended };
    json!({
        "user": user,
        "ulid": order_no.ulid().to_string(),
        "sku": sku,
        "amount": money.amount.to_string(),
        "currency": money.currency,
        "created_at": created_at.0.to_string(),
        "epoch": place.epoch.to_string(),
        "sequence": place.sequence.to_string(),
        "state": state,
        "ended_at": if ended.is_empty() { String::new() } else { updated_at.0.to_string() },
    })
}
