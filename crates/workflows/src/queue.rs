//! The order queue: the Redis stream, the order writer, dead letters, and the outbox of events.

pub mod dead_letters;
pub mod order_writer;
pub mod outbox;
pub mod stream;
