//! The Lua scripts of `lua/`.

use stores::{lua, script::Script};

/// Decides one reservation.
pub static RESERVE: Script =
    Script::new("reserve", &[lua::LIMITS, lua::ORDER, lua::LINE, include_str!("../lua/reserve.lua")]);

/// Finds the SKUs with units left that somebody waits for.
pub static LINE_SKUS: Script = Script::new("line_skus", &[include_str!("../lua/line_skus.lua")]);

/// Offers units that came back to those who wait longest.
pub static OFFER: Script = Script::new("offer", &[lua::LINE, include_str!("../lua/offer.lua")]);

/// Ends an entry of the line.
pub static LEAVE: Script = Script::new("leave", &[lua::LINE, include_str!("../lua/leave.lua")]);

/// Checks bans and limits before a challenge or a ticket is issued.
pub static PRECHECK: Script = Script::new("precheck", &[lua::LIMITS, include_str!("../lua/precheck.lua")]);

/// Marks a human check as used.
pub static ADMIT: Script = Script::new("admit", &[lua::LIMITS, include_str!("../lua/admit.lua")]);

/// Reads the gate and the stock.
pub static READ_GATE: Script = Script::new("read_gate", &[include_str!("../lua/read_gate.lua")]);

/// Updates gate and stock from the ledger.
pub static WARM_UP: Script = Script::new("warm_up", &[lua::STOCK, include_str!("../lua/warm_up.lua")]);

/// Lowers totals before the ledger has them.
pub static LOWER_TOTALS: Script = Script::new("lower_totals", &[lua::STOCK, include_str!("../lua/lower_totals.lua")]);

/// All of them.
pub static ALL: [&Script; 9] =
    [&RESERVE, &LINE_SKUS, &OFFER, &LEAVE, &PRECHECK, &ADMIT, &READ_GATE, &WARM_UP, &LOWER_TOTALS];
