//! The gate as a rebuild finds it.

use domain::{activity::ActivityState, ids::ActivityId};
use orders::ledger::line_entries::Cursor;
use stores::{
    keys::Keys,
    ports::{Redis, RedisArg, StoreError},
    reply::Reply,
};

/// A gate; all zero and empty if there is none.
pub(super) struct FoundGate {
    pub epoch: i64,
    pub is_published: bool,
    /// The epoch of the orders that Redis has lost; 0 if it is not stopped.
    pub lost_epoch: i64,
    pub is_restoring: bool,
    pub restored: i64,
    pub restored_after: String,
    pub to_restore: i64,
    /// Up to where a rebuild has restored the line.
    pub line_after: Cursor,
}

impl FoundGate {
    pub async fn read<R: Redis>(redis: &R, activity: &ActivityId) -> Result<Self, StoreError> {
        let fields =
            ["epoch", "state", "stopped", "restoring", "restored", "restored_after", "to_restore", "line_after"];
        let mut args = vec![Keys::of(activity).named("gate").into()];
        args.extend(fields.map(RedisArg::from));
        let mut gate = Reply::new(redis.command("HMGET", args).await?);
        Ok(Self {
            epoch: gate.int()?,
            is_published: gate.text()? == ActivityState::Published.as_str(),
            lost_epoch: gate.text()?.split_once(' ').and_then(|(epoch, _)| epoch.parse().ok()).unwrap_or_default(),
            is_restoring: gate.int()? == 1,
            restored: gate.int()?,
            restored_after: gate.text()?,
            to_restore: gate.int()?,
            line_after: Cursor::parse(&gate.text()?),
        })
    }

    pub fn latest_epoch(&self) -> i64 {
        self.epoch.max(self.lost_epoch)
    }

    pub fn is_complete(&self) -> bool {
        self.epoch > 0 && !self.is_restoring && self.lost_epoch == 0
    }
}
