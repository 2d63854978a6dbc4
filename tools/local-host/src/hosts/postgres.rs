//! Implements `spin:postgres`.

mod parameters;
mod pool;
mod query;
mod values;

use std::sync::Arc;

use tokio_postgres::config::Host as ServerHost;
use wasmtime::component::{Accessor, FutureReader, HasData, Resource, StreamReader};

pub use self::pool::PostgresPools;
use self::{pool::Client, query::Rows};
use super::stream::ChannelProducer;
use crate::{
    bindings::postgres::{
        Column, Connection, ConnectionBuilder, Error, Host, HostConnection, HostConnectionBuilder,
        HostConnectionBuilderWithStore, HostConnectionWithStore, ParameterValue, Row, RowSet,
    },
    calls,
    connection_limit::{ConnectionLimit, ConnectionPermit},
    outbound::AllowedHosts,
    table::Table,
};

/// The maximum number of connections per instance, as in Spin.
const MAX_CONNECTIONS: usize = 1024;

/// The PostgreSQL connections of an instance.
pub struct PostgresHost {
    connector: Connector,
    connections: Table<(Client, ConnectionPermit)>,
}

/// Opens connections to the servers that the allow-list permits.
#[derive(Clone)]
struct Connector {
    allowed: Arc<AllowedHosts>,
    pools: Arc<PostgresPools>,
    limit: ConnectionLimit,
}

impl PostgresHost {
    /// Creates the state of an instance without open connections.
    pub fn new(allowed: Arc<AllowedHosts>, pools: Arc<PostgresPools>, limit: ConnectionLimit) -> Self {
        Self { connector: Connector { allowed, pools, limit }, connections: Table::new(MAX_CONNECTIONS) }
    }

    fn insert_client(&mut self, client: (Client, ConnectionPermit)) -> Result<Resource<Connection>, Error> {
        self.connections.push(client).map_err(|_| Error::ConnectionFailed("too many connections".into()))
    }

    fn client(&self, connection: &Resource<Connection>) -> Result<Client, Error> {
        calls::LEDGER.record();
        let client = self.connections.get(connection).map(|(client, _)| client.clone());
        client.ok_or_else(|| Error::ConnectionFailed("no connection found".into()))
    }
}

impl Connector {
    async fn connect(&self, url: &str) -> Result<(Client, ConnectionPermit), Error> {
        self.check_allowed(url)?;
        let permit = self.limit.acquire().await;
        let client = self.pools.client(url).await;
        Ok((client.map_err(|error| Error::ConnectionFailed(format!("{error:?}")))?, permit))
    }

    /// Returns an error unless every host in the address is allowed.
    fn check_allowed(&self, url: &str) -> Result<(), Error> {
        let config: tokio_postgres::Config =
            url.parse().map_err(|error: tokio_postgres::Error| Error::ConnectionFailed(error.to_string()))?;
        let ports = config.get_ports();
        for (index, host) in config.get_hosts().iter().enumerate() {
            let ServerHost::Tcp(host) = host else {
                return Err(Error::ConnectionFailed("Unix sockets are not supported on WebAssembly".into()));
            };
            // A single port applies to all hosts.
            let port = ports.get(index).or(if ports.len() == 1 { ports.first() } else { None });
            let authority = match port {
                Some(port) => format!("{host}:{port}"),
                None => host.clone(),
            };
            let allowed = self.allowed.allows_url(&authority, "postgres");
            if !allowed.map_err(|error| Error::Other(error.to_string()))? {
                return Err(Error::ConnectionFailed(format!("address postgres://{authority} is not permitted")));
            }
        }
        Ok(())
    }
}

/// Projects the wasmtime store's data to [`PostgresHost`].
pub struct PostgresData;

impl HasData for PostgresData {
    type Data<'a> = &'a mut PostgresHost;
}

impl Host for PostgresHost {
    fn convert_error(&mut self, error: Error) -> wasmtime::Result<Error> {
        Ok(error)
    }
}

impl HostConnectionBuilder for PostgresHost {
    async fn new(&mut self, _: String) -> wasmtime::Result<Resource<ConnectionBuilder>> {
        Err(wasmtime::format_err!("this host opens connections without a builder"))
    }

    async fn set_ca_root(&mut self, _: Resource<ConnectionBuilder>, _: String) -> Result<(), Error> {
        Err(no_builder())
    }

    async fn build(&mut self, _: Resource<ConnectionBuilder>) -> Result<Resource<Connection>, Error> {
        Err(no_builder())
    }

    async fn drop(&mut self, _: Resource<ConnectionBuilder>) -> wasmtime::Result<()> {
        Ok(())
    }
}

impl<T: Send> HostConnectionBuilderWithStore<T> for PostgresData {
    async fn build_async(_: &Accessor<T, Self>, _: Resource<ConnectionBuilder>) -> Result<Resource<Connection>, Error> {
        Err(no_builder())
    }
}

fn no_builder() -> Error {
    Error::Other("no builder found".into())
}

impl HostConnection for PostgresHost {
    async fn open(&mut self, url: String) -> Result<Resource<Connection>, Error> {
        let client = self.connector.connect(&url).await?;
        self.insert_client(client)
    }

    async fn execute(
        &mut self,
        connection: Resource<Connection>,
        statement: String,
        parameters: Vec<ParameterValue>,
    ) -> Result<u64, Error> {
        query::execute(&self.client(&connection)?, &statement, &parameters).await
    }

    async fn query(
        &mut self,
        connection: Resource<Connection>,
        statement: String,
        parameters: Vec<ParameterValue>,
    ) -> Result<RowSet, Error> {
        query::collect(&self.client(&connection)?, &statement, &parameters).await
    }

    async fn drop(&mut self, connection: Resource<Connection>) -> wasmtime::Result<()> {
        self.connections.remove(&connection);
        Ok(())
    }
}

impl<T: Send> HostConnectionWithStore<T> for PostgresData {
    async fn open_async(accessor: &Accessor<T, Self>, url: String) -> Result<Resource<Connection>, Error> {
        let connector = accessor.with(|mut access| access.get().connector.clone());
        let client = connector.connect(&url).await?;
        accessor.with(|mut access| access.get().insert_client(client))
    }

    async fn execute_async(
        accessor: &Accessor<T, Self>,
        connection: Resource<Connection>,
        statement: String,
        parameters: Vec<ParameterValue>,
    ) -> Result<u64, Error> {
        let client = accessor.with(|mut access| access.get().client(&connection))?;
        query::execute(&client, &statement, &parameters).await
    }

    async fn query_async(
        accessor: &Accessor<T, Self>,
        connection: Resource<Connection>,
        statement: String,
        parameters: Vec<ParameterValue>,
    ) -> Result<(Vec<Column>, StreamReader<Row>, FutureReader<Result<(), Error>>), Error> {
        let client = accessor.with(|mut access| access.get().client(&connection))?;
        let Rows { columns, rows, result } = query::stream(&client, &statement, &parameters).await?;
        accessor
            .with(|mut access| {
                let rows = StreamReader::new(&mut access, ChannelProducer(rows))?;
                let result = FutureReader::new(&mut access, result)?;
                wasmtime::error::Ok((columns, rows, result))
            })
            .map_err(|error| Error::Other(error.to_string()))
    }
}
