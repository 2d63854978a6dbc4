//! Implements `spin:variables`.

use std::sync::Arc;

use tokio::task;
use wasmtime::component::{Accessor, HasData};

use crate::{
    bindings::variables::{Error, Host, HostWithStore},
    variables::{self, Variables},
};

/// The variables of an instance.
pub struct VariablesHost {
    /// The component's id.
    pub component: Arc<str>,
    /// The application's variables.
    pub variables: Arc<Variables>,
}

/// Projects the wasmtime store's data to [`VariablesHost`].
pub struct VariablesData;

impl HasData for VariablesData {
    type Data<'a> = &'a mut VariablesHost;
}

impl Host for VariablesHost {
    fn convert_error(&mut self, error: Error) -> wasmtime::Result<Error> {
        Ok(error)
    }
}

impl<T: Send> HostWithStore<T> for VariablesData {
    async fn get(accessor: &Accessor<T, Self>, name: String) -> Result<String, Error> {
        let (component, variables) = accessor.with(|mut access| {
            let host = access.get();
            (host.component.clone(), host.variables.clone())
        });
        // Reading the environment or a dotenv file may block. Spin, too, calls `block_in_place` every time.
        let value = task::block_in_place(|| variables.component_value(&component, &name));
        value.map_err(|error| match error {
            variables::Error::InvalidName(text) => Error::InvalidName(text),
            variables::Error::Undefined(text) => Error::Undefined(text),
            variables::Error::InvalidTemplate(_) => Error::Other(error.to_string()),
            variables::Error::Provider(error) => Error::Provider(error.to_string()),
        })
    }
}
