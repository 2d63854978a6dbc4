//! Tests of the slice `orders`: the queue, its writer, lists, events.

pub mod dead_letters;
pub mod deliveries;
pub mod doorbell;
pub mod events;
pub mod lost_messages;
pub mod lost_second;
pub mod lost_tail;
pub mod order_list;
pub mod order_search;
