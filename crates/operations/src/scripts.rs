//! The Lua scripts of `lua/`.

use stores::{lua, script::Script};

/// Reads all counters of an activity.
pub static STATS: Script = Script::new("stats", &[lua::ORDER, include_str!("../lua/stats.lua")]);

/// Deletes an activity's gate; with an epoch also stream, counters, stock and holders, and creates the gate of that
/// epoch, marked `restoring`.
pub static RESET: Script = Script::new("reset", &[include_str!("../lua/reset.lua")]);

/// Puts orders of the ledger back into Redis.
pub static RESTORE: Script = Script::new("restore", &[lua::STOCK, lua::ORDER, include_str!("../lua/restore.lua")]);

/// Puts the entries of the ledger back into the line.
pub static RESTORE_LINE: Script = Script::new("restore_line", &[lua::LINE, include_str!("../lua/restore_line.lua")]);

/// Reads those who wait in the line.
pub static READ_LINE: Script = Script::new("read_line", &[lua::LINE, include_str!("../lua/read_line.lua")]);

/// Reads the state of many orders of an epoch.
pub static READ_ORDERS: Script = Script::new("read_orders", &[include_str!("../lua/read_orders.lua")]);

/// Marks orders that the ledger has no room for as failed.
pub static FAIL_ORDERS: Script = Script::new("fail_orders", &[lua::ORDER, include_str!("../lua/fail_orders.lua")]);

/// Completes a rebuild.
pub static FINISH: Script = Script::new("finish", &[include_str!("../lua/finish.lua")]);

/// Sets or clears a gate's load-shedding flag.
pub static SHED: Script = Script::new("shed", &[include_str!("../lua/shed.lua")]);

/// Bans users and addresses.
pub static BAN: Script = Script::new("ban", &[include_str!("../lua/ban.lua")]);

/// All of them.
pub static ALL: [&Script; 10] =
    [&STATS, &RESET, &RESTORE, &RESTORE_LINE, &READ_LINE, &READ_ORDERS, &FAIL_ORDERS, &FINISH, &SHED, &BAN];
