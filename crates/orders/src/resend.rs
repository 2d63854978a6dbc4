//! Sends queued orders again whose messages are gone from the stream (`lua/resend.lua`; I4).

use domain::{ids::ActivityId, time::Millis};
use stores::{
    keys::Keys,
    ports::{Redis, Sql, StoreError},
};

use crate::{dead_letters, scripts::RESEND, stream::Content};

/// Orders that one call of the script looks at.
const STEP: &str = "500";

/// What [`resend`] found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResendReport {
    /// Orders that were sent again.
    pub resent: usize,
    /// Orders of a later version of the app, which stay for its writers.
    pub newer: usize,
    /// Orders that cannot be read, which are dead letters now.
    pub unreadable: usize,
}

/// Looks at the queued orders of an activity, in up to `steps` steps, and sends those again that have no message.
///
/// # Errors
/// [`StoreError`] of either store; repeating the call finishes the work.
pub async fn resend<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activity: &ActivityId,
    now: Millis,
    steps: usize,
) -> Result<ResendReport, StoreError> {
    let keys = Keys::of(activity);
    let (mut report, mut cursor) = (ResendReport::default(), "0".to_owned());
    for _ in 0..steps {
        let args = vec![cursor.as_str().into(), STEP.into()];
        let mut reply = RESEND.run(redis, keys.all(["queued", "orders"]), args).await?.after("done")?;
        cursor = reply.text()?;
        report.resent += usize::try_from(reply.int()?).unwrap_or_default();
        while reply.remaining() > 0 {
            let (ulid, value) = (reply.text()?, String::from_utf8_lossy(&reply.bytes()?).into_owned());
            let message = value.split_once(' ').map_or("", |(_, message)| message);
            if Content::parse(activity, message) == Content::Newer {
                report.newer += 1;
                continue;
            }
            dead_letters::record(sql, &[(format!("{activity}.{ulid}"), value, "unreadable")], now).await?;
            redis.command("HDEL", vec![keys.named("queued").into(), ulid.into()]).await?;
            report.unreadable += 1;
        }
        if cursor == "0" {
            break;
        }
    }
    Ok(report)
}
