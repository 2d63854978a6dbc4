//! This instance behind the port of values that all instances share.

use domain::time::Millis;
use workflows::cache::shared_value::Instance;

use crate::{clock, key_value, random};

/// The instance that runs this code, and Spin's key-value store.
#[derive(Debug, Clone, Copy, Default)]
pub struct SpinInstance;

impl Instance for SpinInstance {
    fn now(&self) -> Millis {
        clock::now()
    }

    fn random_bits(&self) -> u128 {
        random::bits()
    }

    async fn sleep(&self, ms: i64) {
        clock::sleep(ms).await;
    }

    async fn read_copy(&self, key: &str) -> Option<Vec<u8>> {
        key_value::get(key).await
    }

    async fn write_copy(&self, key: &str, value: &[u8]) {
        key_value::set(key, value).await;
    }
}
