//! Counts the calls that components make to what is outside of the process, for benchmarks and tests.

use std::sync::atomic::{AtomicU64, Ordering};

/// The calls since the start of the process, to one kind of host.
pub struct Calls(AtomicU64);

/// Statements of SQLite and PostgreSQL.
pub static LEDGER: Calls = Calls(AtomicU64::new(0));
/// Commands of Redis.
pub static REDIS: Calls = Calls(AtomicU64::new(0));
/// Reads and writes of the key-value store.
pub static KEY_VALUE: Calls = Calls(AtomicU64::new(0));
/// Requests over HTTP, those to other components included.
pub static HTTP: Calls = Calls(AtomicU64::new(0));

impl Calls {
    /// Counts one.
    pub fn record(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The counts as JSON.
pub fn json() -> String {
    let count = |calls: &Calls| calls.0.load(Ordering::Relaxed);
    format!(
        r#"{{"ledger":{},"redis":{},"key_value":{},"http":{}}}"#,
        count(&LEDGER),
        count(&REDIS),
        count(&KEY_VALUE),
        count(&HTTP)
    )
}
