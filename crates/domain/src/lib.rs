//! Identifiers, states, rules, tickets, signatures and wire types of a flash sale.
//!
//! This crate does no I/O, and its own code takes time and randomness as parameters. Three libraries are exceptions:
//! `jsonwebtoken`, `standardwebhooks` and `altcha` compare expiries and timestamps with the system clock, and `altcha`
//! draws the nonce and salt of a challenge. All of it is tested on the host.

pub mod activity;
pub mod address;
pub mod api;
pub mod branding;
pub mod calendar;
pub mod client_address;
pub mod event;
pub mod gate;
pub mod http;
pub mod human_check;
pub mod ids;
pub mod jwt;
pub mod language;
pub mod legal_links;
pub mod log_limit;
pub mod money;
pub mod operators;
pub mod order;
pub mod order_number;
pub mod presale;
pub mod sandbox_session;
pub mod schema;
pub mod secret;
pub mod settings;
pub mod sign_in;
pub mod signer;
pub mod siteverify;
pub mod stripe;
pub mod ticket;
pub mod time;
pub mod variables;
pub mod webhook;
mod words;
