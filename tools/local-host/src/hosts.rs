//! Host implementations of the interfaces that components import, one module per interface.

pub mod http;
pub mod key_value;
pub mod postgres;
pub mod redis;
pub mod sqlite;
mod stream;
pub mod variables;
