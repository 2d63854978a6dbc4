//! What the order writer tells Redis of the line (H1).

use domain::ids::ActivityId;
use serde_json::json;
use stores::{
    keys::{Keys, WRITER_GROUP},
    ports::{Redis, StoreError},
};

use crate::{
    ledger::line_entries::Entry,
    order_record::NewOrder,
    scripts::{ENTRY_WRITTEN, WITHDRAW},
    stream::Message,
};

/// Acknowledges the messages of entries that the ledger has.
pub(super) async fn acknowledge<R: Redis>(
    redis: &R,
    activity: &ActivityId,
    written: &[(&Message, &Entry)],
) -> Result<(), StoreError> {
    if written.is_empty() {
        return Ok(());
    }
    let messages = written
        .iter()
        .map(|(message, entry)| json!({ "ulid": entry.order_no.ulid().to_string(), "stream_id": message.stream_id }));
    let options = json!({ "group": WRITER_GROUP, "messages": messages.collect::<Vec<_>>() });
    let keys = Keys::of(activity);
    let mut script_keys = keys.all(["orders", "stats", "queued", "gate", "entries"]);
    script_keys.extend(written.iter().map(|(_, entry)| keys.line(&entry.sku)));
    ENTRY_WRITTEN.run_with(redis, script_keys, &options).await?.after("done").map(|_| ())
}

/// Lets the buyer of an offered unit wait again, at the same place: the ledger has no room for the order.
pub(super) async fn withdraw<R: Redis>(redis: &R, order: &NewOrder, stream_id: &str) -> Result<(), StoreError> {
    let keys = Keys::of(order.order_no.activity());
    let mut script_keys = keys.all(["gate", "orders", "stats", "queued", "holders", "entries"]);
    script_keys.push(keys.line(&order.sku));
    let options = json!({
        "group": WRITER_GROUP,
        "ulid": order.order_no.ulid().to_string(),
        "user": order.user,
        "sku": order.sku,
        "stream_id": stream_id,
    });
    WITHDRAW.run_with(redis, script_keys, &options).await?.after("done").map(|_| ())
}
