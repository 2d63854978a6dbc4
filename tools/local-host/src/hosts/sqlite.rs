//! Implements `spin:sqlite`.

use std::sync::Arc;

use wasmtime::component::{Accessor, FutureReader, HasData, Resource, StreamReader};

use super::stream::ChannelProducer;
use crate::{
    bindings::sqlite::{
        Connection, Error, Host, HostConnection, HostConnectionWithStore, QueryResult, RowResult, Value,
    },
    calls,
    stores::{self, Database, Rows},
    table::Table,
};

/// The maximum number of open connections per instance, as in Spin.
const MAX_CONNECTIONS: usize = 256;

/// The database connections of an instance.
pub struct SqliteHost {
    granted: Option<Arc<Database>>,
    connections: Table<stores::Connection>,
}

impl SqliteHost {
    /// Creates the state of an instance without open connections. `granted` is the database that it may open, if any.
    pub fn new(granted: Option<Arc<Database>>) -> Self {
        Self { granted, connections: Table::new(MAX_CONNECTIONS) }
    }

    fn open_database(&mut self, label: &str) -> Result<Resource<Connection>, Error> {
        let database = self.granted.as_ref().filter(|_| label == stores::DEFAULT).ok_or(Error::AccessDenied)?;
        self.connections.push(database.connect()).map_err(|_| Error::Io("too many connections opened".into()))
    }

    fn connection(&self, connection: &Resource<Connection>) -> Result<stores::Connection, Error> {
        calls::LEDGER.record();
        self.connections.get(connection).cloned().ok_or(Error::InvalidConnection)
    }
}

/// Projects the wasmtime store's data to [`SqliteHost`].
pub struct SqliteData;

impl HasData for SqliteData {
    type Data<'a> = &'a mut SqliteHost;
}

impl SqliteData {
    fn connection<T>(
        accessor: &Accessor<T, Self>,
        connection: &Resource<Connection>,
    ) -> Result<stores::Connection, Error> {
        accessor.with(|mut access| access.get().connection(connection))
    }
}

impl Host for SqliteHost {
    fn convert_error(&mut self, error: Error) -> wasmtime::Result<Error> {
        Ok(error)
    }
}

impl HostConnection for SqliteHost {
    async fn open(&mut self, database: String) -> Result<Resource<Connection>, Error> {
        self.open_database(&database)
    }

    async fn execute(
        &mut self,
        connection: Resource<Connection>,
        statement: String,
        parameters: Vec<Value>,
    ) -> Result<QueryResult, Error> {
        self.connection(&connection)?.query(statement, parameters).await
    }

    async fn changes(&mut self, connection: Resource<Connection>) -> wasmtime::Result<u64> {
        Ok(self.connection(&connection)?.changes()?)
    }

    async fn last_insert_rowid(&mut self, connection: Resource<Connection>) -> wasmtime::Result<i64> {
        Ok(self.connection(&connection)?.last_insert_rowid()?)
    }

    async fn drop(&mut self, connection: Resource<Connection>) -> wasmtime::Result<()> {
        self.connections.remove(&connection);
        Ok(())
    }
}

impl<T: Send> HostConnectionWithStore<T> for SqliteData {
    async fn open_async(accessor: &Accessor<T, Self>, database: String) -> Result<Resource<Connection>, Error> {
        accessor.with(|mut access| access.get().open_database(&database))
    }

    async fn execute_async(
        accessor: &Accessor<T, Self>,
        connection: Resource<Connection>,
        statement: String,
        parameters: Vec<Value>,
    ) -> Result<(Vec<String>, StreamReader<RowResult>, FutureReader<Result<(), Error>>), Error> {
        let connection = Self::connection(accessor, &connection)?;
        let Rows { columns, rows, result } = connection.stream(statement, parameters).await?;
        accessor
            .with(|mut access| {
                let rows = StreamReader::new(&mut access, ChannelProducer(rows))?;
                let result = FutureReader::new(&mut access, result)?;
                wasmtime::error::Ok((columns, rows, result))
            })
            .map_err(|error| Error::Io(error.to_string()))
    }

    async fn changes_async(accessor: &Accessor<T, Self>, connection: Resource<Connection>) -> wasmtime::Result<u64> {
        Ok(Self::connection(accessor, &connection)?.changes()?)
    }

    async fn last_insert_rowid_async(
        accessor: &Accessor<T, Self>,
        connection: Resource<Connection>,
    ) -> wasmtime::Result<i64> {
        Ok(Self::connection(accessor, &connection)?.last_insert_rowid()?)
    }
}
