//! Spin key-value as a best-effort cache of data that Redis or the ledger owns.
//!
//! Errors are ignored: a failed read counts as a miss, a failed write is lost.

use spin_sdk::key_value::Store;

/// Returns the value of `key`; `None` if there is none or the store failed.
pub async fn get(key: &str) -> Option<Vec<u8>> {
    Store::open_default().await.ok()?.get(key).await.ok()?
}

/// Sets the value of `key`.
pub async fn set(key: &str, value: &[u8]) {
    if let Ok(store) = Store::open_default().await {
        let _ = store.set(key, value).await;
    }
}
