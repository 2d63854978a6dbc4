//! Orders after their reservation: the queue, its writer, transitions into Redis, lists, and events to the shop.

pub mod dead_letters;
pub mod doorbell;
pub mod event_delivery;
pub mod ledger;
mod line;
pub mod message_batch;
pub mod order_list;
pub mod order_record;
pub mod order_writer;
pub mod resend;
pub mod scripts;
pub mod status;
pub mod stream;
pub mod sync;
