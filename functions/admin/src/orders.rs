//! Shows orders to operators: one with delivery address, callbacks, refunds and events, or those of a sale in pages.

use domain::{
    address::{Address, AddressCipher},
    api::Page,
    http::problem::{FieldError, Problem},
    ids::{ActivityId, OrderNo},
};
use operations::commands::documents::{ExportedOrder, OrderDetails};
use orders::ledger::{events, order_rows};
use payments::ledger::{addresses, callback_rows, refunds};
use platform::{
    http::{ApiError, Request, Response, not_found},
    ledger::SpinLedger,
    log, paging, settings,
};
use sale::ledger::activities;

use crate::call::Call;

/// Maximum and default number of orders in a page.
const MAX_PAGE: i64 = 1_000;

/// Handles `GET …/activities/:activity/orders?before=&limit=`: the orders in the ledger, newest first, with buyer and
/// payment.
pub async fn list(request: &Request, activity: &ActivityId) -> Result<Response, ApiError> {
    let before = paging::before(request).unwrap_or_default();
    if !before.is_empty() && !OrderNo::parse(&before).is_ok_and(|order_no| order_no.activity() == activity) {
        let error = FieldError::new("?before", "must be an order number of this sale");
        return Err(Problem::invalid(vec![error]).into());
    }
    let limit = paging::limit(request, MAX_PAGE)?;
    let ledger = SpinLedger::open_for_batch().await;
    activities::load(&ledger, activity).await?.ok_or_else(|| not_found("There is no such sale."))?;
    let rows = order_rows::list_newest(&ledger, activity, &before, limit + 1).await?;
    let found = rows.iter().map(ExportedOrder::from).collect();
    Ok(Response::json(200, &Page::new(found, limit, |order| order.order.order_no.to_string())))
}

/// Handles `GET …/orders/:order_no`. Reading a delivery address is logged with the operator's name; the address itself is
/// not.
pub async fn get(call: &Call<'_>) -> Result<Response, ApiError> {
    let unknown = || not_found("The ledger has no such order.");
    let order_no = OrderNo::parse(call.params[0]).map_err(|_| unknown())?;
    let (cipher, ledger) = (settings::load(settings::ADDRESS_CIPHER).await?, SpinLedger::open().await);
    let row = order_rows::load(&ledger, &order_no).await?.ok_or_else(unknown)?;
    let document = OrderDetails {
        order: ExportedOrder::from(&row),
        address: open_address(call, &cipher, &ledger, &order_no).await?,
        callbacks: callback_rows::list_for_order(&ledger, &order_no).await?,
        refunds: refunds::list_for_order(&ledger, &order_no).await?,
        events: events::list_for_order(&ledger, &order_no).await?,
    };
    Ok(Response::json(200, &document))
}

/// Decrypts the order's delivery address. `None` if there is none, if it was erased, or if its key is gone.
async fn open_address(
    call: &Call<'_>,
    cipher: &AddressCipher,
    ledger: &SpinLedger,
    order_no: &OrderNo,
) -> Result<Option<Address>, ApiError> {
    let Some(sealed) = addresses::load(ledger, order_no).await? else { return Ok(None) };
    let address = cipher.open(order_no, &sealed);
    let fields = [
        ("order_no", order_no.to_string().into()),
        ("opened", address.is_some().into()),
        ("operator", call.operator.name.as_str().into()),
        ("request_id", call.request.request_id.as_str().into()),
    ];
    log::info("address read", &fields);
    Ok(address)
}
