//! The order queue: the Redis stream, the doorbell, the order writer, dead letters, and the delivery of events.

pub mod dead_letters;
pub mod doorbell;
pub mod event_delivery;
pub mod message_batch;
pub mod order_writer;
pub mod stream;
