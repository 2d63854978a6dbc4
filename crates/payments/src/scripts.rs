//! The Lua scripts of `lua/`.

use stores::script::Script;

/// Stores an order's payment session.
pub static SET_SESSION: Script = Script::new("set_session", &[include_str!("../lua/set_session.lua")]);

/// All of them.
pub static ALL: [&Script; 1] = [&SET_SESSION];
