//! Implements `spin:key-value`.

use std::sync::Arc;

use wasmtime::component::{Accessor, FutureReader, HasData, Resource, StreamReader};

use super::stream::ChannelProducer;
use crate::{
    bindings::key_value::{Error, Host, HostStore, HostStoreWithStore, Store},
    calls,
    stores::{DEFAULT, KeyValueStore, Keys},
    table::Table,
};

/// The key-value stores of an instance.
pub struct KeyValueHost {
    granted: Option<Arc<KeyValueStore>>,
    stores: Table<Arc<KeyValueStore>>,
}

impl KeyValueHost {
    /// Creates the state of an instance without open stores. `granted` is the store that it may open, if any.
    pub fn new(granted: Option<Arc<KeyValueStore>>) -> Self {
        Self { granted, stores: Table::new(u32::MAX as usize) }
    }
}

/// Projects the wasmtime store's data to [`KeyValueHost`].
pub struct KeyValueData;

impl HasData for KeyValueData {
    type Data<'a> = &'a mut KeyValueHost;
}

impl KeyValueData {
    fn store<T>(accessor: &Accessor<T, Self>, store: &Resource<Store>) -> Result<Arc<KeyValueStore>, Error> {
        calls::KEY_VALUE.record();
        accessor.with(|mut access| access.get().stores.get(store).cloned().ok_or(Error::NoSuchStore))
    }
}

impl Host for KeyValueHost {
    fn convert_error(&mut self, error: Error) -> wasmtime::Result<Error> {
        Ok(error)
    }
}

impl HostStore for KeyValueHost {
    async fn drop(&mut self, store: Resource<Store>) -> wasmtime::Result<()> {
        self.stores.remove(&store);
        Ok(())
    }
}

impl<T: Send> HostStoreWithStore<T> for KeyValueData {
    async fn open(accessor: &Accessor<T, Self>, label: String) -> Result<Resource<Store>, Error> {
        accessor.with(|mut access| {
            let host = access.get();
            let store = host.granted.clone().filter(|_| label == DEFAULT).ok_or(Error::AccessDenied)?;
            host.stores.push(store).map_err(|_| Error::StoreTableFull)
        })
    }

    async fn get(accessor: &Accessor<T, Self>, store: Resource<Store>, key: String) -> Result<Option<Vec<u8>>, Error> {
        Self::store(accessor, &store)?.get(&key)
    }

    async fn set(
        accessor: &Accessor<T, Self>,
        store: Resource<Store>,
        key: String,
        value: Vec<u8>,
    ) -> Result<(), Error> {
        Self::store(accessor, &store)?.set(&key, &value)
    }

    async fn delete(accessor: &Accessor<T, Self>, store: Resource<Store>, key: String) -> Result<(), Error> {
        Self::store(accessor, &store)?.delete(&key)
    }

    async fn exists(accessor: &Accessor<T, Self>, store: Resource<Store>, key: String) -> Result<bool, Error> {
        Ok(Self::store(accessor, &store)?.get(&key)?.is_some())
    }

    async fn get_keys(
        accessor: &Accessor<T, Self>,
        store: Resource<Store>,
    ) -> wasmtime::Result<(StreamReader<String>, FutureReader<Result<(), Error>>)> {
        let Keys { keys, result } = Self::store(accessor, &store)?.keys();
        accessor.with(|mut access| {
            let keys = StreamReader::new(&mut access, ChannelProducer(keys))?;
            let result = FutureReader::new(&mut access, result)?;
            Ok((keys, result))
        })
    }
}
