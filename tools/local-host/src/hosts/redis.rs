//! Implements `spin:redis`.

mod reply;

use std::{fmt::Display, sync::Arc};

use redis::{AsyncCommands as _, AsyncConnectionConfig, Client, ErrorKind, aio::MultiplexedConnection};
use wasmtime::component::{Accessor, HasData, Resource};

use self::reply::Reply;
use crate::{
    bindings::redis::{
        Connection, Error, Host, HostConnection, HostConnectionWithStore, Payload, RedisParameter, RedisResult,
    },
    calls,
    connection_limit::{ConnectionLimit, ConnectionPermit},
    outbound::AllowedHosts,
    stores::MAX_RESULT_BYTES,
    table::Table,
};

/// The maximum number of open connections per instance, as in Spin.
const MAX_CONNECTIONS: usize = 1024;

/// The Redis connections of an instance.
pub struct RedisHost {
    allowed: Arc<AllowedHosts>,
    limit: ConnectionLimit,
    connections: Table<(MultiplexedConnection, ConnectionPermit)>,
}

impl RedisHost {
    /// Creates the state of an instance without open connections.
    pub fn new(allowed: Arc<AllowedHosts>, limit: ConnectionLimit) -> Self {
        Self { allowed, limit, connections: Table::new(MAX_CONNECTIONS) }
    }
}

/// Projects the wasmtime store's data to [`RedisHost`].
pub struct RedisData;

impl HasData for RedisData {
    type Data<'a> = &'a mut RedisHost;
}

impl RedisData {
    fn connection<T>(
        accessor: &Accessor<T, Self>,
        connection: &Resource<Connection>,
    ) -> Result<MultiplexedConnection, Error> {
        calls::REDIS.record();
        accessor.with(|mut access| {
            let connections = &access.get().connections;
            connections
                .get(connection)
                .map(|(connection, _)| connection.clone())
                .ok_or_else(|| Error::Other("could not find connection for resource".into()))
        })
    }
}

impl Host for RedisHost {
    fn convert_error(&mut self, error: Error) -> wasmtime::Result<Error> {
        Ok(error)
    }
}

impl HostConnection for RedisHost {
    async fn drop(&mut self, connection: Resource<Connection>) -> wasmtime::Result<()> {
        self.connections.remove(&connection);
        Ok(())
    }
}

impl<T: Send> HostConnectionWithStore<T> for RedisData {
    async fn open(accessor: &Accessor<T, Self>, address: String) -> Result<Resource<Connection>, Error> {
        let (allowed, limit) = accessor.with(|mut access| {
            let host = access.get();
            (host.allowed.clone(), host.limit.clone())
        });
        if !allowed.allows_url(&address, "redis").map_err(other)? {
            return Err(Error::InvalidAddress);
        }
        let permit = limit.acquire().await;
        // Each call opens a new connection. Reusing one is up to the guest.
        let connection = Client::open(address)
            .map_err(|_| Error::InvalidAddress)?
            .get_multiplexed_async_connection_with_config(&AsyncConnectionConfig::new())
            .await
            .map_err(other)?;
        accessor.with(|mut access| {
            access.get().connections.push((connection, permit)).map_err(|_| Error::TooManyConnections)
        })
    }

    async fn publish(
        accessor: &Accessor<T, Self>,
        connection: Resource<Connection>,
        channel: String,
        payload: Payload,
    ) -> Result<(), Error> {
        let mut connection = Self::connection(accessor, &connection)?;
        connection.publish(channel, payload).await.map_err(other)
    }

    async fn get(
        accessor: &Accessor<T, Self>,
        connection: Resource<Connection>,
        key: String,
    ) -> Result<Option<Payload>, Error> {
        let mut connection = Self::connection(accessor, &connection)?;
        let value: Option<Payload> = connection.get(key).await.map_err(other)?;
        check_size(size_of::<Option<Payload>>() + value.as_ref().map_or(0, Vec::len))?;
        Ok(value)
    }

    async fn set(
        accessor: &Accessor<T, Self>,
        connection: Resource<Connection>,
        key: String,
        value: Payload,
    ) -> Result<(), Error> {
        let mut connection = Self::connection(accessor, &connection)?;
        connection.set(key, value).await.map_err(other)
    }

    async fn incr(accessor: &Accessor<T, Self>, connection: Resource<Connection>, key: String) -> Result<i64, Error> {
        let mut connection = Self::connection(accessor, &connection)?;
        connection.incr(key, 1).await.map_err(other)
    }

    async fn del(
        accessor: &Accessor<T, Self>,
        connection: Resource<Connection>,
        keys: Vec<String>,
    ) -> Result<u32, Error> {
        let mut connection = Self::connection(accessor, &connection)?;
        connection.del(keys).await.map_err(other)
    }

    async fn sadd(
        accessor: &Accessor<T, Self>,
        connection: Resource<Connection>,
        key: String,
        values: Vec<String>,
    ) -> Result<u32, Error> {
        let mut connection = Self::connection(accessor, &connection)?;
        connection.sadd(key, values).await.map_err(|error| match error.kind() {
            ErrorKind::TypeError => Error::TypeError,
            _ => other(error),
        })
    }

    async fn smembers(
        accessor: &Accessor<T, Self>,
        connection: Resource<Connection>,
        key: String,
    ) -> Result<Vec<String>, Error> {
        let mut connection = Self::connection(accessor, &connection)?;
        connection.smembers(key).await.map_err(other)
    }

    async fn srem(
        accessor: &Accessor<T, Self>,
        connection: Resource<Connection>,
        key: String,
        values: Vec<String>,
    ) -> Result<u32, Error> {
        let mut connection = Self::connection(accessor, &connection)?;
        connection.srem(key, values).await.map_err(other)
    }

    async fn execute(
        accessor: &Accessor<T, Self>,
        connection: Resource<Connection>,
        command: String,
        arguments: Vec<RedisParameter>,
    ) -> Result<Vec<RedisResult>, Error> {
        let mut connection = Self::connection(accessor, &connection)?;
        let mut command = redis::cmd(&command);
        for argument in arguments {
            match argument {
                RedisParameter::Int64(value) => command.arg(value),
                RedisParameter::Binary(value) => command.arg(value),
            };
        }
        let reply: Reply = command.query_async(&mut connection).await.map_err(other)?;
        check_size(reply.size())?;
        Ok(reply.0)
    }
}

fn check_size(size: usize) -> Result<(), Error> {
    if size > MAX_RESULT_BYTES {
        return Err(Error::Other(format!("query result exceeds limit of {MAX_RESULT_BYTES} bytes")));
    }
    Ok(())
}

fn other(error: impl Display) -> Error {
    Error::Other(error.to_string())
}
