//! Shows orders to operators: one with delivery address, callbacks, refunds, events and timeline, or many in pages.

use std::collections::HashMap;

use domain::{
    address::{Address, AddressCipher},
    api::Page,
    http::problem::{FieldError, Problem},
    ids::{ActivityId, OrderNo, ShortCode, UserId},
    operators::Role,
    order::OrderStatus,
    time::Millis,
};
use operations::{
    commands::{
        documents::{ExportedOrder, FoundOrder, OrderDetails, PersonData},
        timeline::timeline,
    },
    ledger::{operator_changes, order_times, persons},
};
use orders::ledger::{
    events, line_entries,
    order_rows::{self, OrderRow},
    order_search::{Position, STATUSES, Search},
};
use payments::ledger::{addresses, callback_rows, disputes, partial_refunds, refunds};
use platform::{
    http::{ApiError, Request, Response, not_found},
    ledger::SpinLedger,
    log, paging, settings,
};
use sale::ledger::activities;
use stores::ledger::clock;

use crate::{
    bans::{load_strikes, parse_user},
    books,
    call::{Call, Outcome},
};

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

/// Maximum and default number of orders in a page of [`find`].
const MAX_FOUND: i64 = 200;

/// Handles `GET …/orders?activity=&status=&user=&code=&updated_since=&addresses=&books=&before=&limit=`: orders of one
/// sale or of all, or their books. Reading their delivery addresses is one line of the log.
pub async fn find(call: &Call<'_>) -> Result<Response, ApiError> {
    let request = call.request;
    let mut errors = Vec::new();
    let parse_status = |text: &str| {
        let statuses = STATUSES.map(OrderStatus::as_str).join(", ");
        let status = STATUSES.into_iter().find(|status| status.as_str() == text);
        status.ok_or_else(|| format!("must be one of {statuses}: other orders are not in the ledger"))
    };
    let search = Search {
        activity: paging::parse(request, "activity", ActivityId::parse, &mut errors),
        status: paging::parse(request, "status", parse_status, &mut errors),
        user: paging::parse(request, "user", UserId::parse, &mut errors),
        code: paging::parse(request, "code", ShortCode::parse, &mut errors),
        updated_since: paging::parse(request, "updated_since", Millis::parse, &mut errors),
    };
    let with_addresses = paging::parse(request, "addresses", str::parse, &mut errors).unwrap_or_default();
    let books = paging::parse(request, "books", books::Form::parse, &mut errors);
    if books.is_some() && with_addresses {
        errors.push(FieldError::new("?addresses", "cannot be with books"));
    }
    let before = paging::parse(request, "before", Position::parse, &mut errors);
    if errors.is_empty() && !search.is_indexed() {
        let detail = "name an activity, a user or a code: without one, all orders of all sales would be read";
        errors.push(FieldError::new("?activity", detail));
    }
    if !errors.is_empty() {
        return Err(Problem::invalid(errors).into());
    }
    let limit = paging::limit(request, MAX_FOUND)?;
    let ledger = SpinLedger::open().await;
    let found = search.find(&ledger, before.as_ref(), limit + 1).await?;
    let page = Page::new(found, limit, |row: &OrderRow| search.position(row).to_string());
    if let Some(form) = books {
        return books::respond(request, form, &ledger, &page).await;
    }
    Ok(Response::json(200, &show(call, &ledger, &page, with_addresses).await?))
}

/// Shows a page of orders, with their addresses if they were asked for.
async fn show<'a>(
    call: &Call<'_>,
    ledger: &SpinLedger,
    Page { items, next }: &'a Page<OrderRow>,
    with_addresses: bool,
) -> Result<Page<FoundOrder<'a>>, ApiError> {
    let mut addresses = if with_addresses { Some(open_addresses(call, ledger, items).await?) } else { None };
    let items = items.iter().map(|row| FoundOrder {
        order: ExportedOrder::from(row),
        address: addresses.as_mut().map(|addresses| addresses.remove(&row.order.order_no)),
    });
    Ok(Page { items: items.collect(), next: next.clone() })
}

/// Handles `GET …/users/:user?before=&limit=`: what the ledger keeps about a user (G12). Reading the addresses is one line of
/// the log.
pub async fn get_user(call: &Call<'_>) -> Result<Response, ApiError> {
    let (request, user) = (call.request, parse_user(&call.subject)?);
    let mut errors = Vec::new();
    let before = paging::parse(request, "before", Position::parse, &mut errors);
    if !errors.is_empty() {
        return Err(Problem::invalid(errors).into());
    }
    let limit = paging::limit(request, MAX_FOUND)?;
    let ledger = SpinLedger::open().await;
    let search = Search { user: Some(user.clone()), ..Search::default() };
    let found = search.find(&ledger, before.as_ref(), limit + 1).await?;
    let page = Page::new(found, limit, |row: &OrderRow| search.position(row).to_string());
    let document = PersonData {
        ban: persons::load_ban(&ledger, &user).await?,
        codes: persons::list_codes(&ledger, &user).await?,
        line: line_entries::list_of_user(&ledger, &user, clock::now(&ledger).await?).await?,
        books: payments::ledger::books::list(&ledger, &page.items).await?,
        strikes: load_strikes(&ledger, user).await?,
        page: show(call, &ledger, &page, true).await?,
    };
    Ok(Response::json(200, &document))
}

/// Handles `DELETE …/users/:user`: erases what no law obliges the shop to keep (G12).
pub async fn erase_user(call: &Call<'_>) -> Result<Outcome, ApiError> {
    let (user, ledger) = (parse_user(&call.subject)?, SpinLedger::open().await);
    let erased = persons::erase(&ledger, &user, clock::now(&ledger).await?).await?;
    let is_changed = erased.addresses + erased.codes + erased.strikes > 0;
    Ok(Outcome::changed(200, &erased).only_if(is_changed))
}

/// Decrypts the delivery addresses of orders.
async fn open_addresses(
    call: &Call<'_>,
    ledger: &SpinLedger,
    rows: &[OrderRow],
) -> Result<HashMap<OrderNo, Address>, ApiError> {
    let cipher = settings::load(settings::ADDRESS_CIPHER).await?;
    let orders: Vec<_> = rows.iter().map(|row| &row.order.order_no).collect();
    let sealed = addresses::load_many(ledger, &orders).await?;
    let opened: HashMap<_, _> = sealed
        .into_iter()
        .filter_map(|(order_no, sealed)| cipher.open(&order_no, &sealed).map(|address| (order_no, address)))
        .collect();
    let fields = [
        ("number", (opened.len() as i64).into()),
        ("operator", call.operator.name.as_str().into()),
        ("request_id", call.request.request_id.as_str().into()),
    ];
    log::info("addresses read", &fields);
    Ok(opened)
}

/// Parses the number of an order that a call is about.
pub fn parse_order_no(call: &Call<'_>) -> Result<OrderNo, ApiError> {
    OrderNo::parse(call.params[0]).map_err(|_| unknown_order())
}

/// The error of an order that the ledger does not have.
pub fn unknown_order() -> ApiError {
    not_found("The ledger has no such order.")
}

/// Handles `GET …/orders/:order_no`. An operator who only fulfils orders sees the order and its address. Reading a delivery
/// address is logged with the operator's name; the address itself is not.
pub async fn get(call: &Call<'_>) -> Result<Response, ApiError> {
    let order_no = parse_order_no(call)?;
    let (cipher, ledger) = (settings::load(settings::ADDRESS_CIPHER).await?, SpinLedger::open().await);
    let mut row = match order_rows::load(&ledger, &order_no).await? {
        Some(row) => row,
        // Who waits in a line has no order.
        None => {
            let entry = line_entries::load(&ledger, &order_no, clock::now(&ledger).await?).await?;
            OrderRow::without_row(entry.ok_or_else(unknown_order)?)
        }
    };
    // The document's own amount has also what was given back at the provider.
    row.order.refunded = 0;
    let address = open_address(call, &cipher, &ledger, &order_no).await?;
    let amount = row.order.money.amount;
    let refunded_amount = match row.order.status {
        OrderStatus::Refunded => amount,
        _ => partial_refunds::load_returned(&ledger, &order_no).await?.min(amount),
    };
    let mut document = OrderDetails {
        order: ExportedOrder::from(&row),
        refunded_amount,
        refundable_amount: if row.order.status == OrderStatus::Paid { amount - refunded_amount } else { 0 },
        address,
        timeline: Vec::new(),
        callbacks: Vec::new(),
        refunds: Vec::new(),
        disputes: Vec::new(),
        events: Vec::new(),
    };
    if !call.operator.may(Role::Read) {
        return Ok(Response::json(200, &document));
    }
    let times = order_times::load(&ledger, &order_no).await?;
    let callbacks = callback_rows::list_for_order(&ledger, &order_no).await?;
    let refunds = refunds::list_for_order(&ledger, &order_no).await?;
    let disputes = disputes::list_for_orders(&ledger, &[&order_no]).await?;
    let events = events::list_for_order(&ledger, &order_no).await?;
    let number = order_no.to_string();
    let subjects: Vec<_> = callbacks.iter().map(|callback| callback.id.as_str()).chain([number.as_str()]).collect();
    let changes = operator_changes::list_of_subjects(&ledger, &subjects).await?;
    document.timeline = timeline(&row, &times, &callbacks, &refunds, &disputes, &events, &changes);
    (document.callbacks, document.refunds) = (callbacks, refunds);
    (document.disputes, document.events) = (disputes, events);
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
