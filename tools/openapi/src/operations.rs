//! The operations of the API.

mod buyers;
mod operators;
mod visitors;

use crate::{operation::Operation, schemas::Schemas};

/// Every operation.
pub fn operations(schemas: &mut Schemas) -> Vec<Operation> {
    [visitors::operations(schemas), buyers::operations(schemas), operators::operations(schemas)]
        .into_iter()
        .flatten()
        .collect()
}
