//! Shows orders to operators: one with delivery address, callbacks, refunds and events, or those of a sale in pages.

use domain::{
    address::AddressCipher,
    ids::{ActivityId, OrderNo},
    problem::{FieldError, Problem},
};
use platform::{
    address_cipher,
    http::{ApiError, Request, Response, not_found},
    ledger::SpinLedger,
    log,
};
use serde_json::{Value, json};
use workflows::ledger::{
    activities, addresses, events,
    orders::{self, OrderRow},
    payments, refunds,
};

/// Maximum and default number of orders in a page.
const MAX_PAGE: i64 = 1_000;

/// Handles `GET …/activities/:activity/orders?after=&limit=`: the orders in the ledger, oldest first, with buyer and
/// payment. `after` is the last order of the page before.
pub async fn list(request: &Request, activity: &ActivityId) -> Result<Response, ApiError> {
    let invalid = |name: &str, detail: &str| Problem::invalid(vec![FieldError::new(format!("?{name}"), detail)]);
    let after = request
        .query_param("after")
        .filter(|text| !text.is_empty())
        .map(|text| OrderNo::parse(text).ok().filter(|order_no| order_no.activity() == activity))
        .map(|order_no| order_no.ok_or_else(|| invalid("after", "must be an order number of this sale")))
        .transpose()?;
    let limit = match request.query_param("limit").filter(|text| !text.is_empty()) {
        None => MAX_PAGE,
        Some(text) => text
            .parse::<i64>()
            .ok()
            .filter(|limit| (1..=MAX_PAGE).contains(limit))
            .ok_or_else(|| invalid("limit", "must be 1 to 1000"))?,
    };
    let ledger = SpinLedger::open_for_batch().await;
    activities::load(&ledger, activity).await?.ok_or_else(|| not_found("There is no such sale."))?;
    let after = after.map(|order_no| order_no.to_string()).unwrap_or_default();
    let page = orders::load_page(&ledger, activity, &after, limit).await?;
    Ok(Response::json(200, &page.iter().map(to_json).collect::<Vec<_>>()))
}

/// The order with its buyer, its payment and when it last changed.
fn to_json(row: &OrderRow) -> Value {
    let mut document = json!(row.order);
    document["user"] = json!(row.order.user);
    document["payment"] = json!(Some(&row.payment).filter(|payment| !payment.is_empty()));
    document["updated_at"] = json!(row.updated_at);
    document
}

/// Handles `GET …/orders/:order_no`. Reading a delivery address is logged; the address itself is not.
pub async fn get(request: &Request, order_no: &str) -> Result<Response, ApiError> {
    let unknown = || not_found("The ledger has no such order.");
    let order_no = OrderNo::parse(order_no).map_err(|_| unknown())?;
    let (cipher, ledger) = (address_cipher::from_config().await?, SpinLedger::open().await);
    let row = orders::load(&ledger, &order_no).await?.ok_or_else(unknown)?;
    let mut document = to_json(&row);
    document["address"] = open_address(request, &cipher, &ledger, &order_no).await?;
    document["callbacks"] = json!(payments::list_for_order(&ledger, &order_no).await?);
    document["refunds"] = json!(refunds::list_for_order(&ledger, &order_no).await?);
    document["events"] = json!(events::list_for_order(&ledger, &order_no).await?);
    Ok(Response::json(200, &document))
}

/// Decrypts the order's delivery address. The result is null if there is none, if it was erased, or if its key is gone.
async fn open_address(
    request: &Request,
    cipher: &AddressCipher,
    ledger: &SpinLedger,
    order_no: &OrderNo,
) -> Result<Value, ApiError> {
    let Some(sealed) = addresses::load(ledger, order_no).await? else { return Ok(Value::Null) };
    let address = cipher.open(order_no, &sealed);
    let fields = [
        ("order_no", order_no.to_string().into()),
        ("opened", address.is_some().into()),
        ("request_id", request.request_id.as_str().into()),
    ];
    log::info("address read", &fields);
    Ok(json!(address))
}
