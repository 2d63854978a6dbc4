//! One order as operators see it: with its buyer, its address, and everything that money did.

use domain::{address::AddressCipher, ids::OrderNo};
use platform::{
    address_cipher,
    http::{Answer, Call, Failure, not_found},
    ledger::SpinLedger,
    log,
};
use serde_json::{Value, json};
use workflows::ledger::{addresses, events, orders, payments, refunds};

/// `GET …/orders/:order_no`. Whoever reads an address leaves a line in the log, without the address.
pub async fn get(call: &Call, order_no: &str) -> Result<Answer, Failure> {
    let unknown = || not_found("The ledger has no such order.");
    let order_no = OrderNo::parse(order_no).map_err(|_| unknown())?;
    let (vault, ledger) = (address_cipher::address_cipher().await?, SpinLedger::open().await);
    let entry = orders::load(&ledger, &order_no).await?.ok_or_else(unknown)?;
    let mut document = json!(entry.order);
    document["user"] = json!(entry.order.user);
    document["payment"] = json!(Some(&entry.payment).filter(|payment| !payment.is_empty()));
    document["address"] = address(call, &vault, &ledger, &order_no).await?;
    document["callbacks"] = json!(payments::of_order(&ledger, &order_no).await?);
    document["refunds"] = json!(refunds::of_order(&ledger, &order_no).await?);
    document["events"] = json!(events::of_order(&ledger, &order_no).await?);
    Ok(Answer::json(200, &document))
}

/// The address in clear, or nothing where there is none (any more), or its key is gone.
async fn address(
    call: &Call,
    vault: &AddressCipher,
    ledger: &SpinLedger,
    order_no: &OrderNo,
) -> Result<Value, Failure> {
    let Some(sealed) = addresses::load(ledger, order_no).await? else { return Ok(Value::Null) };
    let address = vault.open(order_no, &sealed);
    let fields = [
        ("order_no", order_no.to_string().into()),
        ("opened", address.is_some().into()),
        ("request_id", call.request_id.as_str().into()),
    ];
    log::info("address read", &fields);
    Ok(json!(address))
}
