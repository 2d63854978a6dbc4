//! Shows orders to operators: one with delivery address, callbacks, refunds and events, or those of a sale in pages.

use domain::{
    address::{Address, AddressCipher},
    http::problem::{FieldError, Problem},
    ids::{ActivityId, OrderNo},
};
use operations::commands::documents::{ExportedOrder, OrderDetails};
use orders::ledger::{events, order_rows};
use payments::ledger::{addresses, callback_rows, refunds};
use platform::{
    http::{ApiError, Request, Response, not_found},
    ledger::SpinLedger,
    log, settings,
};
use sale::ledger::activities;

use crate::paging;

/// Maximum and default number of orders in a page.
const MAX_PAGE: i64 = 1_000;

/// Handles `GET …/activities/:activity/orders?after=&limit=`: the orders in the ledger, oldest first, with buyer and
/// payment. `after` is the last order of the page before.
pub async fn list(request: &Request, activity: &ActivityId) -> Result<Response, ApiError> {
    let invalid = || Problem::invalid(vec![FieldError::new("?after", "must be an order number of this sale")]);
    let after = request
        .query_param("after")
        .filter(|text| !text.is_empty())
        .map(|text| OrderNo::parse(text).ok().filter(|order_no| order_no.activity() == activity))
        .map(|order_no| order_no.ok_or_else(invalid))
        .transpose()?;
    let limit = paging::limit(request, MAX_PAGE)?;
    let ledger = SpinLedger::open_for_batch().await;
    activities::load(&ledger, activity).await?.ok_or_else(|| not_found("There is no such sale."))?;
    let after = after.map(|order_no| order_no.to_string()).unwrap_or_default();
    let page = order_rows::load_page(&ledger, activity, &after, limit).await?;
    Ok(Response::json(200, &page.iter().map(ExportedOrder::from).collect::<Vec<_>>()))
}

/// Handles `GET …/orders/:order_no`. Reading a delivery address is logged with the operator's name; the address itself is
/// not.
pub async fn get(request: &Request, operator: &str, order_no: &str) -> Result<Response, ApiError> {
    let unknown = || not_found("The ledger has no such order.");
    let order_no = OrderNo::parse(order_no).map_err(|_| unknown())?;
    let (cipher, ledger) = (settings::load(settings::ADDRESS_CIPHER).await?, SpinLedger::open().await);
    let row = order_rows::load(&ledger, &order_no).await?.ok_or_else(unknown)?;
    let document = OrderDetails {
        order: ExportedOrder::from(&row),
        address: open_address(request, operator, &cipher, &ledger, &order_no).await?,
        callbacks: callback_rows::list_for_order(&ledger, &order_no).await?,
        refunds: refunds::list_for_order(&ledger, &order_no).await?,
        events: events::list_for_order(&ledger, &order_no).await?,
    };
    Ok(Response::json(200, &document))
}

/// Decrypts the order's delivery address. `None` if there is none, if it was erased, or if its key is gone.
async fn open_address(
    request: &Request,
    operator: &str,
    cipher: &AddressCipher,
    ledger: &SpinLedger,
    order_no: &OrderNo,
) -> Result<Option<Address>, ApiError> {
    let Some(sealed) = addresses::load(ledger, order_no).await? else { return Ok(None) };
    let address = cipher.open(order_no, &sealed);
    let fields = [
        ("order_no", order_no.to_string().into()),
        ("opened", address.is_some().into()),
        ("operator", operator.into()),
        ("request_id", request.request_id.as_str().into()),
    ];
    log::info("address read", &fields);
    Ok(address)
}
