//! Spin key-value as a best-effort cache of data that Redis or the ledger owns.
//!
//! Errors are ignored: a failed read counts as a miss, a failed write is lost.

use domain::time::Millis;
use spin_sdk::key_value::Store;
use stores::ports::KeyValue;

use crate::{clock, random};

/// Spin's key-value store, and the clock of the instance that runs this code.
#[derive(Debug, Clone, Copy, Default)]
pub struct SpinKeyValue;

impl KeyValue for SpinKeyValue {
    async fn read_copy(&self, key: &str) -> Option<Vec<u8>> {
        Store::open_default().await.ok()?.get(key).await.ok()?
    }

    async fn write_copy(&self, key: &str, value: &[u8]) {
        if let Ok(store) = Store::open_default().await {
            let _ = store.set(key, value).await;
        }
    }

    fn now(&self) -> Millis {
        clock::now()
    }

    async fn sleep(&self, ms: i64) {
        clock::sleep(ms).await;
    }

    fn random_bits(&self) -> u128 {
        random::bits()
    }
}
