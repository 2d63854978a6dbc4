//! The auditor's part: asks after lost answers, looks at every order once more, and reads the operator's books.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::buyers::fan_out;
use super::observations::{Claim, End, Evidence, OrderSeen, Span};
use super::order::Look;
use super::plan::Intent;
use super::rush::VisitReport;
use super::samples::stats;
use super::session::Session;
use super::setup::ADMIN_PATIENCE;
use crate::http::Call;
use crate::meter::Step;
use crate::wire::{Audit, Order, SkuStock};

/// How long one order is asked after.
const LOOK_PATIENCE: Duration = Duration::from_secs(30);

/// What buyers found out afterwards who had not got an answer.
#[derive(Debug, Default)]
pub struct Reconciled {
    /// Orders that they have without having been told.
    pub learned: Vec<OrderSeen>,
    /// Orders whose ticket was refused when it asked again.
    pub denied: Vec<String>,
    /// Buyers who could not find out.
    pub unresolved: u64,
}

/// Buyers whose answer was lost look at their own orders, once everything is in the ledger.
pub async fn reconcile(session: &Session, reports: &[VisitReport]) -> Reconciled {
    let mut known: BTreeSet<String> = reports.iter().flat_map(|report| report.answers.clone()).collect();
    let mut found = Reconciled::default();
    for report in reports {
        if !report.lost || !report.answers.is_empty() {
            continue;
        }
        let Some(orders) = own_orders(session, report.index).await else {
            found.unresolved += 1;
            continue;
        };
        for order in orders {
            if !known.insert(order.order_no.clone()) {
                continue;
            }
            if report.refused {
                found.denied.push(order.order_no.clone());
            }
            found.learned.push(order);
        }
    }
    found
}

async fn own_orders(session: &Session, index: usize) -> Option<Vec<OrderSeen>> {
    let buyer = session.visits[index].buyer;
    let call = Call::get("/api/orders?limit=20").with(&session.users[buyer]);
    let answer = session.app.insist(Step::Status, &call, Instant::now() + LOOK_PATIENCE).await.ok()?;
    let list: Vec<Order> = answer.success("asking for one's own orders").ok()?.parse().ok()?;
    let now = session.since_start(Instant::now());
    let seen = list.into_iter().map(|order| OrderSeen {
        order_no: order.order_no,
        user: session.user(buyer),
        sku: order.sku,
        quantity: order.quantity,
        alive: vec![Span { from: now, until: now }],
        safe_until: now,
        intent: Intent::Leave,
        payment: Claim::No,
        extra: Claim::No,
        refund: Claim::No,
        cancellation: Claim::No,
        paid_in_time: None,
        end: End::Status(order.status),
    });
    Some(seen.collect())
}

/// Looks at every order once more and gathers the evidence.
pub async fn gather(
    session: &Arc<Session>,
    reports: Vec<VisitReport>,
    found: Reconciled,
    samples: Vec<SkuStock>,
) -> Result<Evidence> {
    let tickets = reports.iter().map(|report| report.answers.clone()).collect();
    let mut orders: Vec<(usize, OrderSeen)> =
        reports.into_iter().filter_map(|report| Some((report.index, report.order?))).collect();
    for order in found.learned {
        let visit = session.visits.iter().position(|visit| session.user(visit.buyer) == order.user);
        orders.push((visit.unwrap_or_default(), order));
    }
    let orders = look_at_all(session, orders).await?;
    let stats = stats(&session.app, &session.terms, ADMIN_PATIENCE).await;
    let audit: Option<Audit> = admin_read(session, session.terms.admin_path("/audit")).await;
    let given_back = given_back(session, &orders).await;
    let dead_letters: Option<Value> = admin_read(session, "/api/admin/dead-letters".to_owned()).await;
    Ok(Evidence {
        per_user: session.options.per_user,
        totals: session.terms.skus.iter().map(|sku| (sku.clone(), session.terms.total)).collect(),
        orders,
        tickets,
        denied_winners: found.denied,
        unresolved: found.unresolved,
        samples,
        counted: stats.as_ref().map(|stats| without_zeros(&stats.orders)),
        stock: stats.map(|stats| stats.skus),
        audit: audit.map(|audit| audit.skus),
        given_back,
        dead_letters: dead_letters.map(|letters| order_numbers(&letters)),
    })
}

async fn look_at_all(session: &Arc<Session>, orders: Vec<(usize, OrderSeen)>) -> Result<Vec<OrderSeen>> {
    let session = session.clone();
    session.progress.checking.set_length(orders.len() as u64);
    let count = orders.len();
    let orders = Arc::new(orders);
    fan_out(count, move |position| {
        let (session, orders) = (session.clone(), orders.clone());
        async move {
            let (index, mut order) = orders[position].clone();
            let mut look = Look::new(&session, index).as_user();
            look.once(&mut order, Instant::now() + LOOK_PATIENCE).await;
            session.progress.checking.inc(1);
            Ok(order)
        }
    })
    .await
}

async fn admin_read<T: DeserializeOwned>(session: &Session, path: String) -> Option<T> {
    let answer = session.app.admin(Call::get(path), ADMIN_PATIENCE).await.ok()?;
    answer.success("reading the books").ok()?.parse().ok()
}

/// Those of the orders that were paid twice whose second payment goes back, or has gone back.
async fn given_back(session: &Session, orders: &[OrderSeen]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for order in orders.iter().filter(|order| order.extra == Claim::Yes) {
        let seen: Option<Value> = admin_read(session, format!("/api/admin/orders/{}", order.order_no)).await;
        let refunds = seen.as_ref().and_then(|seen| seen["refunds"].as_array());
        if refunds.into_iter().flatten().any(|refund| refund["book"] == "overpayments") {
            found.insert(order.order_no.clone());
        }
    }
    found
}

fn without_zeros(counts: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    counts.iter().filter(|(_, count)| **count > 0).map(|(status, count)| (status.clone(), *count)).collect()
}

/// Every `order_no` anywhere in a document.
fn order_numbers(document: &Value) -> BTreeSet<String> {
    match document {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(name, value)| match value.as_str() {
                Some(text) if name == "order_no" => BTreeSet::from([text.to_owned()]),
                _ => order_numbers(value),
            })
            .collect(),
        Value::Array(items) => items.iter().flat_map(order_numbers).collect(),
        _ => BTreeSet::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn dead_letters_are_found_at_any_depth() {
        let letters = json!({"dead_letters": [{"order_no": "s.1", "reason": "x"}, {"order": {"order_no": "s.2"}}]});
        assert_eq!(order_numbers(&letters), BTreeSet::from(["s.1".to_owned(), "s.2".to_owned()]));
    }
}
