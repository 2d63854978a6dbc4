//! Support library for the tests.
//!
//! For the black-box tests: start an app, send requests, check responses, poll for a state. For the tests of the
//! workflows: [`fixture`], on the real [`stores`], with [`fakes`] of what is outside.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that panics has failed")]
#![allow(clippy::wrong_self_convention, reason = "`response.is(200)` reads as what it asserts")]

pub mod activity;
mod app;
pub mod fakes;
pub mod fixture;
mod http;
pub mod human_checks;
mod identity;
mod issuer;
mod ledger;
pub mod load;
mod openapi;
mod order_writer;
mod patroni;
pub mod payments;
mod poll;
mod redis_cluster;
mod redis_sentinel;
mod shop;
pub mod stores;
mod tickets;

pub use self::{
    activity::{Buyer, TestActivity},
    app::TestApp,
    http::{HttpClient, Response, client_builder, exchange, status_of},
    identity::Claims,
    issuer::Issuer,
    openapi::OpenApi,
    order_writer::OrderWriter,
    patroni::Patroni,
    poll::{eventually, eventually_is},
    redis_cluster::RedisCluster,
    redis_sentinel::RedisSentinel,
    shop::Shop,
};
