//! Runs statements and converts their results.

use std::pin::Pin;

use futures::StreamExt as _;
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::{RowStream as RawRows, types::ToSql};

use super::{parameters, pool::Client, values};
use crate::{
    bindings::postgres::{Column, DbError, Error, ParameterValue, QueryError, Row, RowSet},
    stores::MAX_RESULT_BYTES,
};

/// A stream of rows, followed by the outcome of the statement.
pub struct Rows {
    /// The columns. Empty if there are no rows, because they are read from the first row.
    pub columns: Vec<Column>,
    /// The rows. Dropping the receiver ends the stream.
    pub rows: mpsc::Receiver<Row>,
    /// Resolves after the last row.
    pub result: oneshot::Receiver<Result<(), Error>>,
}

type RowStream = Pin<Box<RawRows>>;

/// Runs a statement and returns how many rows it changed.
pub async fn execute(client: &Client, statement: &str, parameters: &[ParameterValue]) -> Result<u64, Error> {
    let parameters =
        parameters::convert(parameters).map_err(|error| Error::ValueConversionFailed(format!("{error:?}")))?;
    let references: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect();
    client.execute(statement, &references).await.map_err(query_error)
}

/// Runs a statement and returns all of its rows.
pub async fn collect(client: &Client, statement: &str, parameters: &[ParameterValue]) -> Result<RowSet, Error> {
    let mut incoming = query_raw(client, statement, parameters).await?;
    let mut set = RowSet { columns: Vec::new(), rows: Vec::new() };
    let mut size = size_of::<RowSet>();
    while let Some(row) = incoming.next().await {
        let row = row.map_err(query_error)?;
        if set.rows.is_empty() {
            set.columns = values::columns(&row);
        }
        let row = convert(&row)?;
        size += values::size(&row);
        if size > MAX_RESULT_BYTES {
            return Err(too_large());
        }
        set.rows.push(row);
    }
    Ok(set)
}

/// Runs a statement and streams its rows.
pub async fn stream(client: &Client, statement: &str, parameters: &[ParameterValue]) -> Result<Rows, Error> {
    let mut incoming = query_raw(client, statement, parameters).await?;
    let (columns_tx, columns) = oneshot::channel();
    let (rows_tx, rows) = mpsc::channel(4);
    let (result_tx, result) = oneshot::channel();
    tokio::spawn(async move {
        let outcome = tokio::select! {
            // The guest dropped the stream of rows.
            () = rows_tx.closed() => Ok(()),
            outcome = forward(&mut incoming, columns_tx, &rows_tx) => outcome,
        };
        // Sending fails only if the guest has dropped the receiver.
        let _ = result_tx.send(outcome);
    });
    Ok(Rows { columns: columns.await.unwrap_or_default(), rows, result })
}

async fn forward(
    incoming: &mut RowStream,
    columns: oneshot::Sender<Vec<Column>>,
    rows: &mpsc::Sender<Row>,
) -> Result<(), Error> {
    let mut columns = Some(columns);
    while let Some(row) = incoming.next().await {
        let row = row.map_err(query_error)?;
        // Sent before the row is converted, so that the guest gets the columns even if a value cannot be read.
        if let Some(columns) = columns.take() {
            let _ = columns.send(values::columns(&row));
        }
        let row = convert(&row)?;
        if values::size(&row) > MAX_RESULT_BYTES {
            return Err(too_large());
        }
        if rows.send(row).await.is_err() {
            break;
        }
    }
    Ok(())
}

async fn query_raw(client: &Client, statement: &str, parameters: &[ParameterValue]) -> Result<RowStream, Error> {
    let parameters = parameters::convert(parameters).map_err(|error| Error::BadParameter(format!("{error:?}")))?;
    Ok(Box::pin(client.query_raw(statement, parameters).await.map_err(query_error)?))
}

fn convert(row: &tokio_postgres::Row) -> Result<Row, Error> {
    values::convert(row).map_err(|error| text_error(format!("{error:?}")))
}

fn too_large() -> Error {
    text_error(format!("query result exceeds limit of {MAX_RESULT_BYTES} bytes"))
}

fn text_error(text: String) -> Error {
    Error::QueryFailed(QueryError::Text(text))
}

fn query_error(error: tokio_postgres::Error) -> Error {
    let as_text = format!("{error:?}");
    let Some(error) = error.as_db_error() else { return text_error(as_text) };
    let extras = [
        ("column", error.column().map(str::to_owned)),
        ("constraint", error.constraint().map(str::to_owned)),
        ("routine", error.routine().map(str::to_owned)),
        ("hint", error.hint().map(str::to_owned)),
        ("table", error.table().map(str::to_owned)),
        ("datatype", error.datatype().map(str::to_owned)),
        ("schema", error.schema().map(str::to_owned)),
        ("file", error.file().map(str::to_owned)),
        ("line", error.line().map(|line| line.to_string())),
        ("where_", error.where_().map(str::to_owned)),
    ];
    Error::QueryFailed(QueryError::DbError(DbError {
        as_text,
        severity: error.severity().to_owned(),
        code: error.code().code().to_owned(),
        message: error.message().to_owned(),
        detail: error.detail().map(str::to_owned),
        extras: extras.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect(),
    }))
}
