//! Support library for the black-box tests: start an app, send requests, check responses, poll for a state.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed")]
#![allow(clippy::wrong_self_convention, reason = "`response.is(200)` reads as what it asserts")]

pub mod activity;
mod app;
mod http;
mod human_checks;
mod identity;
mod ledger;
pub mod payments;
mod poll;
mod tickets;

pub use self::{
    activity::{Buyer, TestActivity},
    app::TestApp,
    http::{HttpClient, Response, client_builder},
    identity::Claims,
    poll::eventually,
};
