//! Requests of visitors and buyers to Redis, one round trip each; the list of orders reads one activity a round trip.

pub mod admission;
pub mod gate_cache;
pub mod instance_counts;
pub mod limits;
pub mod order_list;
pub mod read_gate;
pub mod recent;
pub mod reserve;
pub mod status;
