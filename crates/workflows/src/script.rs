//! Lua scripts: `EVALSHA` first, `EVAL` where Redis does not know the script yet.

use std::sync::OnceLock;

use sha1::{Digest, Sha1};

use crate::{
    ports::{Redis, RedisArg, StoreError},
    reply::Reply,
};

/// A script of `lua/`.
pub struct Script {
    name: &'static str,
    source: &'static str,
    sha: OnceLock<String>,
}

macro_rules! scripts {
    ($($(#[$doc:meta])* $name:ident = $($file:literal)+;)*) => {
        $($(#[$doc])* pub static $name: Script =
            Script {
                name: {
                    let files = [$($file),+];
                    files[files.len() - 1]
                },
                source: concat!($(include_str!(concat!("../lua/", $file, ".lua"))),+),
                sha: OnceLock::new(),
            };)*

        const ALL: &[&Script] = &[$(&$name),*];
    };
}

/// What every script that limits begins with: for tests that call it by itself.
pub const LIMITS_SOURCE: &str = include_str!("../lua/parts/limits.lua");

scripts! {
    /// Decides one reservation.
    RESERVE = "parts/limits" "reserve";
    /// Lets somebody ask for a challenge or a ticket, or not.
    PRECHECK = "parts/limits" "precheck";
    /// Uses a human check up.
    ADMIT = "parts/limits" "admit";
    /// Brings Redis along with moves of the ledger.
    SETTLE = "settle";
    /// Takes released units again for a late payment.
    REACQUIRE = "reacquire";
    /// Notes a started payment.
    SET_SESSION = "set_session";
    /// One order as it stands.
    STATUS = "status";
    /// The gate and what is left.
    READ_GATE = "read_gate";
    /// Brings gate and stock into line with the ledger.
    WARM_UP = "warm_up";
    /// The order writer lies down.
    WRITER_IDLE = "writer_idle";
    /// Everything countable of a sale.
    STATS = "stats";
    /// Puts a failed order back into the queue.
    REQUEUE = "requeue";
    /// Forgets a sale that is to be rebuilt.
    RESET = "reset";
    /// Puts orders of the ledger back into Redis.
    RESTORE = "restore";
    /// How orders stand that an epoch counts.
    READ_ORDERS = "read_orders";
    /// Ends a rebuild.
    FINISH = "finish";
    /// Closes a gate of an older epoch, and clears messages of other epochs.
    FENCE = "fence";
    /// Tells a gate whether load is shed.
    SHED = "shed";
    /// Bans users and addresses.
    BAN = "ban";
    /// Takes, keeps or gives up a lease.
    LEASE = "lease";
}

/// The name of the script that `EVALSHA` or `EVAL` is asked for: what a log or a test calls it.
#[must_use]
pub fn name_of(sha_or_source: &[u8]) -> Option<&'static str> {
    let matches =
        |script: &&&Script| script.sha().as_bytes() == sha_or_source || script.source.as_bytes() == sha_or_source;
    ALL.iter().find(matches).map(|script| script.name)
}

impl Script {
    fn sha(&self) -> &str {
        self.sha.get_or_init(|| Sha1::digest(self.source.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Runs the script.
    ///
    /// # Errors
    /// [`StoreError`] of Redis.
    pub async fn run<R: Redis>(&self, redis: &R, keys: Vec<String>, args: Vec<RedisArg>) -> Result<Reply, StoreError> {
        let mut params: Vec<RedisArg> = Vec::with_capacity(2 + keys.len() + args.len());
        params.push(self.sha().to_owned().into_bytes());
        params.push(keys.len().to_string().into_bytes());
        params.extend(keys.into_iter().map(String::into_bytes));
        params.extend(args);
        let retry_params = params.clone();
        match redis.command("EVALSHA", params).await {
            Err(StoreError::RedisRefused(text)) if text == "NOSCRIPT" => {
                let mut params = retry_params;
                params[0] = self.source.as_bytes().to_vec();
                redis.command("EVAL", params).await.map(Reply::new)
            }
            other => other.map(Reply::new),
        }
    }
}
