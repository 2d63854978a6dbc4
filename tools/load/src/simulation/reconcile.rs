//! Collects the observations of a finished sale: unknown orders, last statuses, the admin API's figures.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use anyhow::Result;
use serde_json::Value;

use super::{
    buyers::fan_out,
    context::RunContext,
    observations::{Confirmation, LastSeen, Observations, ObservedOrder},
    samples::fetch_stats,
    status_poller::StatusPoller,
    visits::VisitReport,
};
use crate::{
    app::ADMIN_TIMEOUT,
    http::Call,
    meter::Step,
    wire::{Audit, DeadLetter, Order, Page, SkuStock},
};

/// How long the request for one order is retried.
const STATUS_TIMEOUT: Duration = Duration::from_secs(30);

/// Orders of buyers whose reservations have an uncertain outcome, and what became of their tickets.
#[derive(Debug, Default)]
pub struct RecoveredOrders {
    /// Orders that their buyers did not know of.
    pub orders: Vec<ObservedOrder>,
    /// Orders whose ticket was refused, and not as sold out, when it was used again.
    pub denied_orders: Vec<String>,
    /// Number of buyers whose outcome is still unknown.
    pub unknown_outcomes: u64,
}

/// Lists the orders of each buyer whose reservation has an uncertain outcome and no order.
/// Requires that all orders are in the ledger.
pub async fn recover_orders(run: &RunContext, reports: &[VisitReport]) -> Result<RecoveredOrders> {
    let observed = reports.iter().flat_map(|report| report.orders.iter().map(|order| order.order_no.clone()));
    let mut known: BTreeSet<String> =
        reports.iter().flat_map(|report| report.order_nos.clone()).chain(observed).collect();
    let mut recovered = RecoveredOrders::default();
    let mut uncertain: Vec<_> =
        reports.iter().filter(|report| report.outcome_uncertain && report.order_nos.is_empty()).collect();
    // Of two visits of a buyer, the one that was not refused made the order.
    uncertain.sort_by_key(|report| report.refused);
    let lists = fan_out(uncertain.len(), async |n| Ok(list_orders(run, uncertain[n].index).await)).await?;
    for (report, orders) in uncertain.into_iter().zip(lists) {
        let Some(orders) = orders else {
            recovered.unknown_outcomes += 1;
            continue;
        };
        for order in orders {
            if !known.insert(order.order_no.clone()) {
                continue;
            }
            if report.refused {
                recovered.denied_orders.push(order.order_no.clone());
            }
            recovered.orders.push(order);
        }
    }
    Ok(recovered)
}

async fn list_orders(run: &RunContext, index: usize) -> Option<Vec<ObservedOrder>> {
    let buyer = run.visits[index].buyer;
    let call = Call::get("/api/orders?limit=20").with_authorization(&run.user_tokens[buyer]);
    let response = run.app.send_with_retry(Step::Status, &call, Instant::now() + STATUS_TIMEOUT).await.ok()?;
    let list: Page<Order> = response.error_for_status("asking for one's own orders").ok()?.parse().ok()?;
    let now = run.since_start(Instant::now());
    let seen = list.items.into_iter().map(|order| ObservedOrder {
        end: LastSeen::Status(order.status),
        reason: order.reason,
        ..ObservedOrder::new(order.order_no, run.user_id(buyer), order.sku, order.quantity, now)
    });
    Some(seen.collect())
}

/// Polls every order once more and collects the observations.
pub async fn collect_observations(
    run: &RunContext,
    reports: Vec<VisitReport>,
    recovered: RecoveredOrders,
    stock_samples: Vec<SkuStock>,
) -> Result<Observations> {
    let robot_tries = reports.iter().map(|report| report.robot_tries).sum();
    let orders_by_ticket = reports.iter().map(|report| report.order_nos.clone()).collect();
    let mut orders: Vec<(usize, ObservedOrder)> = Vec::with_capacity(reports.len());
    for report in reports {
        orders.extend(report.orders.into_iter().map(|order| (report.index, order)));
    }
    for order in recovered.orders {
        let visit = run.visits.iter().position(|visit| run.user_id(visit.buyer) == order.user);
        orders.push((visit.unwrap_or_default(), order));
    }
    let orders = poll_all(run, orders).await?;
    let stats = fetch_stats(&run.app, &run.activity, ADMIN_TIMEOUT).await;
    let audit: Option<Audit> = run.app.admin_get(run.activity.admin_path("/audit"), ADMIN_TIMEOUT).await;
    let refunded_overpayments = refunded_overpayments(run, &orders).await;
    let dead_letters: Option<Page<DeadLetter>> =
        run.app.admin_get("/api/admin/dead-letters".to_owned(), ADMIN_TIMEOUT).await;
    Ok(Observations {
        per_user: run.options.per_user,
        totals: run.activity.skus.iter().map(|sku| (sku.clone(), run.activity.total)).collect(),
        orders,
        orders_by_ticket,
        denied_orders: recovered.denied_orders,
        unknown_outcomes: recovered.unknown_outcomes,
        stock_samples,
        orders_by_status: stats.as_ref().map(|stats| nonzero_counts(&stats.orders)),
        final_stock: stats.map(|stats| stats.skus),
        audit: audit.map(|audit| audit.skus),
        refunded_overpayments,
        unoffered: None,
        robot_tries: (run.options.line.robots > 0).then_some(robot_tries),
        dead_letters: dead_letters.map(|letters| letters.items.into_iter().map(|letter| letter.order_no).collect()),
    })
}

async fn poll_all(run: &RunContext, orders: Vec<(usize, ObservedOrder)>) -> Result<Vec<ObservedOrder>> {
    run.progress.checking.set_length(orders.len() as u64);
    fan_out(orders.len(), async |position| {
        let (index, mut order) = orders[position].clone();
        let mut poller = StatusPoller::new(run, index).with_user_token();
        poller.poll(&mut order, Instant::now() + STATUS_TIMEOUT).await;
        run.progress.checking.inc(1);
        Ok(order)
    })
    .await
}

/// The orders with a second payment for which the admin API shows a refund.
async fn refunded_overpayments(run: &RunContext, orders: &[ObservedOrder]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for order in orders.iter().filter(|order| order.extra == Confirmation::Yes) {
        let path = format!("/api/admin/orders/{}", order.order_no);
        let seen: Option<Value> = run.app.admin_get(path, ADMIN_TIMEOUT).await;
        let refunds = seen.as_ref().and_then(|seen| seen["refunds"].as_array());
        if refunds.into_iter().flatten().any(|refund| refund["book"] == "overpayments") {
            found.insert(order.order_no.clone());
        }
    }
    found
}

fn nonzero_counts(counts: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    counts.iter().filter(|(_, count)| **count > 0).map(|(status, count)| (status.clone(), *count)).collect()
}
