//! The workflows of an activity: reserve, write, pay, settle, sweep, recover.
//!
//! Every workflow reaches the outside through the traits of [`ports`] and [`http_client`], so the same code runs inside
//! Spin and in tests against real servers. Redis decides (`lua/`), the ledger is the durable record (`sql/`).
//!
//! Functions return [`StoreError`]; its variants say what each failure means to the caller.

pub mod cache;
pub mod hot;
pub mod http_client;
pub mod keys;
pub mod ledger;
pub mod operator;
mod order_record;
pub mod payments;
pub mod ports;
mod problem;
pub mod queue;
pub mod recovery;
pub mod reply;
pub mod script;
pub mod settle;
pub mod siteverify;

pub use ports::{Redis, Sql, StoreError};

/// Redis pub/sub channel of the doorbell, which wakes order writers (see [`queue::doorbell`]).
pub const DOORBELL_CHANNEL: &str = "stampede:doorbell";

/// Redis consumer group of the order writers, on every activity's stream `orders`.
pub const WRITER_GROUP: &str = "writers";
