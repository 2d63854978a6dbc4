//! Lua scripts: `EVALSHA` first, `EVAL` where Redis does not know the script yet.

use std::sync::OnceLock;

use sha1::{Digest, Sha1};

use crate::{
    ports::{Arg, Redis, StoreError},
    reply::Reply,
};

/// A script of `lua/`.
pub struct Script {
    source: &'static str,
    sha: OnceLock<String>,
}

macro_rules! scripts {
    ($($(#[$doc:meta])* $name:ident = $file:literal;)*) => {
        $($(#[$doc])* pub static $name: Script =
            Script { source: include_str!(concat!("../lua/", $file, ".lua")), sha: OnceLock::new() };)*
    };
}

scripts! {
    /// Decides one reservation.
    RESERVE = "reserve";
    /// Brings Redis along with moves of the ledger.
    SETTLE = "settle";
    /// Takes released units again for a late payment.
    RETAKE = "retake";
    /// Undoes a retake.
    UNTAKE = "untake";
    /// Notes a started payment.
    HOLD = "hold";
    /// One order as it stands.
    STATUS = "status";
    /// The gate and what is left.
    GLANCE = "glance";
    /// Brings gate and stock into line with the ledger.
    PREHEAT = "preheat";
    /// The order writer lies down.
    REST = "rest";
    /// Everything countable of a sale.
    FIGURES = "figures";
    /// Puts a failed order back into the queue.
    REVIVE = "revive";
    /// Forgets a sale that is to be rebuilt.
    FORGET = "forget";
    /// Puts orders of the ledger back into Redis.
    RESTORE = "restore";
    /// Takes, keeps or gives up a lease.
    LEASE = "lease";
}

impl Script {
    /// Runs the script.
    ///
    /// # Errors
    /// [`StoreError`] of Redis.
    pub async fn run<R: Redis>(&self, redis: &R, keys: Vec<String>, args: Vec<Arg>) -> Result<Reply, StoreError> {
        let sha = self
            .sha
            .get_or_init(|| Sha1::digest(self.source.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect());
        let mut call: Vec<Arg> = Vec::with_capacity(2 + keys.len() + args.len());
        call.push(sha.clone().into_bytes());
        call.push(keys.len().to_string().into_bytes());
        call.extend(keys.into_iter().map(String::into_bytes));
        call.extend(args);
        let again = call.clone();
        match redis.command("EVALSHA", call).await {
            Err(StoreError::RedisRefused(text)) if text.contains("NOSCRIPT") => {
                let mut call = again;
                call[0] = self.source.as_bytes().to_vec();
                redis.command("EVAL", call).await.map(Reply::new)
            }
            other => other.map(Reply::new),
        }
    }
}
