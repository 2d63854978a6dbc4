//! What the functions share on Spin: HTTP, Redis, ledger, key-value, settings, caches, clock and logs.
//!
//! **Invariant:** every response leaves through [`http::serve`], the only function that sends one without the 40 ms
//! delay that its module describes.

pub mod activity_cache;
pub mod auth;
pub mod clock;
pub mod counts;
pub mod http;
pub mod http_client;
pub mod instance_counts;
pub mod issuer_keys;
pub mod key_value;
pub mod ledger;
pub mod log;
pub mod lru_map;
pub mod notify;
pub mod paging;
pub mod provider;
pub mod published_list;
pub mod random;
pub mod readable_activities;
pub mod redis;
pub mod request_address;
pub mod settings;
pub mod shared_connection;
pub mod single_flight;
pub mod siteverify;
pub mod timeout;

#[doc(hidden)]
pub use spin_sdk::wasip3;
