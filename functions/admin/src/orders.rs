//! Shows one order to operators: buyer, delivery address, callbacks, refunds and events.

use domain::{address::AddressCipher, ids::OrderNo};
use platform::{
    address_cipher,
    http::{ApiError, Request, Response, not_found},
    ledger::SpinLedger,
    log,
};
use serde_json::{Value, json};
use workflows::ledger::{addresses, events, orders, payments, refunds};

/// Handles `GET …/orders/:order_no`. Reading a delivery address is logged; the address itself is not.
pub async fn get(request: &Request, order_no: &str) -> Result<Response, ApiError> {
    let unknown = || not_found("The ledger has no such order.");
    let order_no = OrderNo::parse(order_no).map_err(|_| unknown())?;
    let (cipher, ledger) = (address_cipher::from_config().await?, SpinLedger::open().await);
    let row = orders::load(&ledger, &order_no).await?.ok_or_else(unknown)?;
    let mut document = json!(row.order);
    document["user"] = json!(row.order.user);
    document["payment"] = json!(Some(&row.payment).filter(|payment| !payment.is_empty()));
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
