//! The doorbell: wakes order writers over Redis pub/sub (D2, D3).
//!
//! A message reaches the order writers of all replicas. One that a reservation rings (`lua/reserve.lua`) wakes all of
//! them. One that a writer rings when it stops with messages left ([`ring_for_one`]) wakes one of them, so that the
//! number of writers at work does not grow.

use domain::ids::ActivityId;
use stores::{
    keys::Keys,
    lease,
    ports::{Redis, StoreError},
};

/// Redis pub/sub channel of the doorbell, which wakes order writers.
pub const DOORBELL_CHANNEL: &str = "stampede:doorbell";

/// How long a replica's claim of a message is remembered, in milliseconds. A replica that reads the message later finds
/// no claim, and drains the stream as well.
const CLAIM_MS: i64 = 60_000;

/// A doorbell message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doorbell {
    /// The activity that has messages in its stream.
    pub activity: ActivityId,
    /// The id of a message for one writer; `None` if it is for all.
    id: Option<u128>,
}

impl Doorbell {
    /// Parses a message: the activity's id, and for one writer a space and the message's id in hexadecimal.
    #[must_use]
    pub fn parse(message: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(message).ok()?;
        let (activity, id) = match text.split_once(' ') {
            Some((activity, id)) => (activity, Some(u128::from_str_radix(id, 16).ok()?)),
            None => (text, None),
        };
        Some(Self { activity: ActivityId::parse(activity).ok()?, id })
    }

    /// Returns whether `replica` is to drain the stream: each one if the message is for all, otherwise the first that
    /// asks. If that one dies, the next reservation or the sweeper wakes another writer.
    ///
    /// # Errors
    /// [`StoreError`] of Redis; the message may be claimed.
    pub async fn claim<R: Redis>(&self, redis: &R, replica: u128) -> Result<bool, StoreError> {
        let Some(id) = self.id else { return Ok(true) };
        let key = Keys::of(&self.activity).doorbell(id);
        lease::hold(redis, &key, &format!("{replica:x}"), CLAIM_MS).await
    }
}

/// Wakes one writer of `activity`; `id` is a random number that no other message has.
///
/// # Errors
/// [`StoreError`] of Redis; the message may have been sent.
pub async fn ring_for_one<R: Redis>(redis: &R, activity: &ActivityId, id: u128) -> Result<(), StoreError> {
    redis.command("PUBLISH", vec![DOORBELL_CHANNEL.into(), format!("{activity} {id:x}").into()]).await.map(|_| ())
}
