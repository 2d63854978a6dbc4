//! The Lua scripts of `lua/`.

use stores::{lua, script::Script};

/// Applies order transitions of the ledger to Redis.
pub static SYNC: Script =
    Script::new("sync", &[lua::LIMITS, lua::STOCK, lua::ORDER, lua::LINE, include_str!("../lua/sync.lua")]);

/// Reacquires released units for a late payment.
pub static REACQUIRE: Script = Script::new("reacquire", &[lua::ORDER, include_str!("../lua/reacquire.lua")]);

/// Notes that a payment of an order was declined.
pub static DECLINE: Script = Script::new("decline", &[include_str!("../lua/decline.lua")]);

/// Reads one order.
pub static STATUS: Script =
    Script::new("status", &[lua::ORDER, lua::READ_ORDER, lua::LINE, include_str!("../lua/status.lua")]);

/// Reads a user's orders that the ledger does not have.
pub static LIST: Script =
    Script::new("list", &[lua::ORDER, lua::READ_ORDER, lua::LINE, include_str!("../lua/list.lua")]);

/// Acknowledges messages of the line whose entries are in the ledger.
pub static ENTRY_WRITTEN: Script = Script::new("entry_written", &[include_str!("../lua/entry_written.lua")]);

/// Takes back an offer that the ledger has no room for.
pub static WITHDRAW: Script = Script::new("withdraw", &[lua::ORDER, lua::LINE, include_str!("../lua/withdraw.lua")]);

/// Delivers messages of the stream to a writer.
pub static READ_MESSAGES: Script = Script::new("read_messages", &[include_str!("../lua/read_messages.lua")]);

/// Sends queued orders again whose messages are gone.
pub static RESEND: Script = Script::new("resend", &[lua::ORDER, include_str!("../lua/resend.lua")]);

/// Registers that a writer starts on an activity.
pub static START_WRITING: Script = Script::new("start_writing", &[include_str!("../lua/start_writing.lua")]);

/// Marks the order writer idle if every message of the stream was delivered; those not acknowledged stay in it.
pub static WRITER_IDLE: Script = Script::new("writer_idle", &[include_str!("../lua/writer_idle.lua")]);

/// Puts a failed order back into the queue.
pub static REQUEUE: Script = Script::new("requeue", &[lua::ORDER, lua::LINE, include_str!("../lua/requeue.lua")]);

/// Compares the gate with the ledger, corrects the stock, and removes messages of other epochs from the stream.
pub static FENCE: Script = Script::new("fence", &[lua::STOCK, lua::ORDER, include_str!("../lua/fence.lua")]);

/// Lists what a user may have that the ledger does not have.
pub static TICKETS: Script = Script::new("tickets", &[lua::LINE, include_str!("../lua/tickets.lua")]);

/// Stops the gate of a sale whose Redis has lost orders.
pub static STOP: Script = Script::new("stop", &[include_str!("../lua/stop.lua")]);

/// All of them.
pub static ALL: [&Script; 15] = [
    &SYNC,
    &REACQUIRE,
    &DECLINE,
    &STATUS,
    &LIST,
    &TICKETS,
    &ENTRY_WRITTEN,
    &WITHDRAW,
    &READ_MESSAGES,
    &RESEND,
    &START_WRITING,
    &WRITER_IDLE,
    &REQUEUE,
    &FENCE,
    &STOP,
];
