//! The Lua scripts of `lua/`, run with `EVALSHA` and, after `NOSCRIPT`, with `EVAL`.

use std::sync::OnceLock;

use serde::Serialize;
use sha1::{Digest, Sha1};

use crate::{
    ports::{Redis, RedisArg, StoreError},
    reply::Reply,
};

/// A Lua script.
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

/// Source of the functions that rate-limiting scripts start with. Tests run them on their own.
pub const LIMITS_SOURCE: &str = include_str!("../lua/parts/limits.lua");

scripts! {
    /// Decides one reservation.
    RESERVE = "parts/limits" "parts/order" "reserve";
    /// Checks bans and limits before a challenge or a ticket is issued.
    PRECHECK = "parts/limits" "precheck";
    /// Marks a human check as used.
    ADMIT = "parts/limits" "admit";
    /// Applies order transitions of the ledger to Redis.
    SETTLE = "parts/limits" "parts/stock" "parts/order" "settle";
    /// Reacquires released units for a late payment.
    REACQUIRE = "parts/order" "reacquire";
    /// Stores an order's payment session.
    SET_SESSION = "set_session";
    /// Notes that a payment of an order was declined.
    DECLINE = "decline";
    /// Reads one order.
    STATUS = "parts/read_order" "status";
    /// Reads a user's orders that the ledger does not have.
    UNWRITTEN_ORDERS = "parts/read_order" "unwritten_orders";
    /// Reads the gate and the stock.
    READ_GATE = "read_gate";
    /// Updates gate and stock from the ledger.
    WARM_UP = "parts/stock" "warm_up";
    /// Lowers totals before the ledger has them.
    LOWER_TOTALS = "parts/stock" "lower_totals";
    /// Registers that a writer starts on an activity.
    START_WRITING = "start_writing";
    /// Marks the order writer idle if every message of the stream was delivered; those not acknowledged stay in it.
    WRITER_IDLE = "writer_idle";
    /// Reads all counters of an activity.
    STATS = "stats";
    /// Puts a failed order back into the queue.
    REQUEUE = "parts/order" "requeue";
    /// Deletes an activity's gate; with an epoch also stream, counters, stock and holders, and creates the gate of that
    /// epoch, marked `restoring`.
    RESET = "reset";
    /// Puts orders of the ledger back into Redis.
    RESTORE = "parts/stock" "parts/order" "restore";
    /// Reads the state of many orders of an epoch.
    READ_ORDERS = "read_orders";
    /// Marks orders that the ledger has no room for as failed.
    FAIL_ORDERS = "parts/order" "fail_orders";
    /// Completes a rebuild.
    FINISH = "finish";
    /// Compares the gate with the ledger, corrects the stock, and removes messages of other epochs from the stream.
    FENCE = "parts/stock" "parts/order" "fence";
    /// Sets or clears a gate's load-shedding flag.
    SHED = "shed";
    /// Bans users and addresses.
    BAN = "ban";
    /// Acquires, extends or releases a lease.
    LEASE = "lease";
}

/// Name of the script that an `EVALSHA` or `EVAL` refers to, for logs and tests.
#[must_use]
pub fn name_of(sha_or_source: &[u8]) -> Option<&'static str> {
    let matches =
        |script: &&&Script| script.sha().as_bytes() == sha_or_source || script.source.as_bytes() == sha_or_source;
    ALL.iter().find(matches).map(|script| script.name)
}

impl Script {
    fn sha(&self) -> &str {
        self.sha.get_or_init(|| hex::encode(Sha1::digest(self.source.as_bytes())))
    }

    /// Runs the script with its options as JSON, the only argument.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub(crate) async fn run_with<R: Redis>(
        &self,
        redis: &R,
        keys: Vec<String>,
        options: &impl Serialize,
    ) -> Result<Reply, StoreError> {
        let json = serde_json::to_vec(options).map_err(|error| StoreError::Malformed(error.to_string()))?;
        self.run(redis, keys, vec![json]).await
    }

    /// Runs the script.
    ///
    /// # Errors
    /// `RedisUnavailable` if the script may or may not have run; `RedisRefused` if Redis answered with an error.
    pub async fn run<R: Redis>(&self, redis: &R, keys: Vec<String>, args: Vec<RedisArg>) -> Result<Reply, StoreError> {
        let mut params: Vec<RedisArg> = Vec::with_capacity(2 + keys.len() + args.len());
        params.push(self.sha().to_owned().into_bytes());
        params.push(keys.len().to_string().into_bytes());
        params.extend(keys.into_iter().map(String::into_bytes));
        params.extend(args);
        let retry_params = params.clone();
        match redis.command("EVALSHA", params).await {
            Err(StoreError::ScriptNotLoaded) => {
                let mut params = retry_params;
                params[0] = self.source.as_bytes().to_vec();
                redis.command("EVAL", params).await.map(Reply::new)
            }
            other => other.map(Reply::new),
        }
    }
}
