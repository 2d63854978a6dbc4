//! Implements `spin:postgres`.

mod parameters;
mod pool;
mod query;
mod types;
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
    connection_limit::{ConnectionLimit, ConnectionPermit},
    outbound::AllowedHosts,
    table::Table,
};

/// The maximum number of connections, and of builders, per instance, as in Spin.
const MAX_RESOURCES: usize = 1024;

/// The PostgreSQL connections of an instance.
pub struct PostgresHost {
    connector: Connector,
    connections: Table<(Client, ConnectionPermit)>,
    builders: Table<Address>,
}

/// The server to connect to, and an additional root certificate (PEM) to trust.
#[derive(Debug, Clone)]
struct Address {
    url: String,
    root_certificate: Option<String>,
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
        Self {
            connector: Connector { allowed, pools, limit },
            connections: Table::new(MAX_RESOURCES),
            builders: Table::new(MAX_RESOURCES),
        }
    }

    fn insert_client(&mut self, client: (Client, ConnectionPermit)) -> Result<Resource<Connection>, Error> {
        self.connections.push(client).map_err(|_| Error::ConnectionFailed("too many connections".into()))
    }

    fn client(&self, connection: &Resource<Connection>) -> Result<Client, Error> {
        let client = self.connections.get(connection).map(|(client, _)| client.clone());
        client.ok_or_else(|| Error::ConnectionFailed("no connection found".into()))
    }

    fn builder_address(&self, builder: &Resource<ConnectionBuilder>) -> Result<Address, Error> {
        let address = self.builders.get(builder).cloned();
        address.ok_or_else(|| Error::ConnectionFailed("no builder found".into()))
    }
}

impl Connector {
    async fn connect(&self, address: Address) -> Result<(Client, ConnectionPermit), Error> {
        self.check_allowed(&address.url)?;
        let permit = self.limit.acquire().await;
        let client = self.pools.client(&address.url, address.root_certificate.as_deref()).await;
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

impl PostgresData {
    async fn connect<T>(accessor: &Accessor<T, Self>, address: Address) -> Result<Resource<Connection>, Error> {
        let connector = accessor.with(|mut access| access.get().connector.clone());
        let client = connector.connect(address).await?;
        accessor.with(|mut access| access.get().insert_client(client))
    }
}

impl Host for PostgresHost {
    fn convert_error(&mut self, error: Error) -> wasmtime::Result<Error> {
        Ok(error)
    }
}

impl HostConnectionBuilder for PostgresHost {
    async fn new(&mut self, url: String) -> wasmtime::Result<Resource<ConnectionBuilder>> {
        self.builders
            .push(Address { url, root_certificate: None })
            .map_err(|_| wasmtime::format_err!("out of builder table space"))
    }

    async fn set_ca_root(&mut self, builder: Resource<ConnectionBuilder>, certificate: String) -> Result<(), Error> {
        pool::parse_certificates(&certificate)
            .map_err(|error| Error::Other(format!("invalid root certificate: {error}")))?;
        let address = self.builders.get_mut(&builder);
        let address = address.ok_or_else(|| Error::ConnectionFailed("no builder found".into()))?;
        address.root_certificate = Some(certificate);
        Ok(())
    }

    async fn build(&mut self, builder: Resource<ConnectionBuilder>) -> Result<Resource<Connection>, Error> {
        let client = self.connector.connect(self.builder_address(&builder)?).await?;
        self.insert_client(client)
    }

    async fn drop(&mut self, builder: Resource<ConnectionBuilder>) -> wasmtime::Result<()> {
        self.builders.remove(&builder);
        Ok(())
    }
}

impl<T: Send> HostConnectionBuilderWithStore<T> for PostgresData {
    async fn build_async(
        accessor: &Accessor<T, Self>,
        builder: Resource<ConnectionBuilder>,
    ) -> Result<Resource<Connection>, Error> {
        let address = accessor.with(|mut access| access.get().builder_address(&builder))?;
        Self::connect(accessor, address).await
    }
}

impl HostConnection for PostgresHost {
    async fn open(&mut self, url: String) -> Result<Resource<Connection>, Error> {
        let client = self.connector.connect(Address { url, root_certificate: None }).await?;
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
        Self::connect(accessor, Address { url, root_certificate: None }).await
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
