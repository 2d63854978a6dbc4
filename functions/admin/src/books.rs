//! The books of a page of orders, as CSV or JSON lines (G21).

use domain::api::Page;
use orders::ledger::order_rows::OrderRow;
use payments::ledger::books::{self, BookEntry};
use platform::{
    http::{ApiError, Request, Response},
    ledger::SpinLedger,
};

/// A form of the books.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Csv,
    JsonLines,
}

impl Form {
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        match text {
            "csv" => Ok(Self::Csv),
            "jsonl" => Ok(Self::JsonLines),
            _ => Err("must be csv or jsonl"),
        }
    }
}

/// The columns' names of CSV.
const COLUMNS: [&str; 13] = [
    "order_no",
    "order_status",
    "sku",
    "quantity",
    "entry",
    "at",
    "provider",
    "session",
    "payment",
    "id",
    "amount",
    "currency",
    "state",
];

/// Answers with the entries of a page of orders. The header `link` has the next page. Pages of CSV can be appended: the first
/// alone has the columns' names.
pub async fn respond(
    request: &Request,
    form: Form,
    ledger: &SpinLedger,
    Page { items, next }: &Page<OrderRow>,
) -> Result<Response, ApiError> {
    let entries = books::list(ledger, items).await?;
    let is_first = request.query_param("before").is_none_or(str::is_empty);
    let response = match form {
        Form::Csv => Response::with_body(200, "text/csv; charset=utf-8", csv(&entries, is_first)?),
        Form::JsonLines => Response::with_body(200, "application/jsonl", json_lines(&entries)),
    };
    let response = response.header("cache-control", "no-store");
    let Some(next) = next else { return Ok(response) };
    let others: String =
        request.query().split('&').filter(|pair| !pair.starts_with("before=")).map(|pair| format!("{pair}&")).collect();
    Ok(response.header("link", format!("<{}?{others}before={next}>; rel=\"next\"", request.path())))
}

fn json_lines(entries: &[BookEntry]) -> String {
    entries.iter().filter_map(|entry| serde_json::to_string(entry).ok()).map(|line| line + "\n").collect()
}

fn csv(entries: &[BookEntry], with_columns: bool) -> Result<Vec<u8>, ApiError> {
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    let columns = if with_columns { writer.write_record(COLUMNS) } else { Ok(()) };
    let written = columns.and_then(|()| entries.iter().try_for_each(|entry| writer.serialize(entry)));
    let unexpected = |error: String| ApiError::Unexpected(error);
    written.map_err(|error| unexpected(error.to_string()))?;
    writer.into_inner().map_err(|error| unexpected(error.to_string()))
}
