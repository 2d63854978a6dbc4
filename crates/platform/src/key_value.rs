//! Spin key-value: copies to read from, never the truth. A failure here is a slow read, not an error.

use spin_sdk::key_value::Store;

/// The copy under `key`, if there is one.
pub async fn get(key: &str) -> Option<Vec<u8>> {
    Store::open_default().await.ok()?.get(key).await.ok()?
}

/// Keeps a copy under `key`.
pub async fn set(key: &str, value: &[u8]) {
    if let Ok(store) = Store::open_default().await {
        let _ = store.set(key, value).await;
    }
}

/// Forgets the copy under `key`.
pub async fn delete(key: &str) {
    if let Ok(store) = Store::open_default().await {
        let _ = store.delete(key).await;
    }
}
