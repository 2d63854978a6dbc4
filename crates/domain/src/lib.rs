//! What a flash sale is: identities, states, rules, tickets, signatures and wire types.
//!
//! Pure: nothing here reads a clock, a socket or a file, so everything is tested on the host in milliseconds.

pub mod activity;
pub mod address;
pub mod body;
pub mod event;
pub mod gate;
pub mod human_check;
pub mod ids;
pub mod jwt;
pub mod money;
pub mod order;
pub mod problem;
pub mod sandbox_session;
pub mod secret;
pub mod signer;
pub mod stripe;
pub mod ticket;
pub mod time;
pub mod webhook;
