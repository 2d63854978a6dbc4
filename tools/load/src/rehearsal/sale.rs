//! A small sale that is marked as a rehearsal: driven, audited, paid back, deleted.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Parser;
use http::Method;
use serde_json::json;

use super::{Finding, Options, installation::Installation};
use crate::{
    meter::Step,
    simulation::{self, report::Report, verdict},
};

/// How long refunds, events and the deletion may take after the sale.
const END_TIMEOUT: Duration = Duration::from_secs(120);

const POLL_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Parser)]
struct SaleOptions {
    #[command(flatten)]
    options: simulation::Options,
}

/// Runs the sale and removes it. The installation's own sweeper and writer must do their work.
pub async fn rehearse(options: &Options, installation: &Installation) -> Result<Finding> {
    let flags = format!(
        "sale --buyers {} --stock {} --sweep-every 0 --greedy-share 0.1 --double-share 0.1 --pay-share 0.6 \
         --cancel-share 0.2 --connections 16 --finish-timeout 90 --pay-timeout 10",
        2 * options.stock,
        options.stock
    );
    let mut sale = SaleOptions::try_parse_from(flags.split_whitespace())?.options;
    (sale.target, sale.pay) = (options.target.clone(), options.pay);
    let report = simulation::run(sale).await?;
    let id = &report.activity;
    if report.verdict.finding() != verdict::Finding::Ok {
        println!("{}", report.text());
        return Ok(Finding::NoGo(format!("{} The rehearsal {id} is closed, and stays", report.verdict.conclusion())));
    }
    if !opened_payments(&report) {
        println!("{}", report.text());
        return Ok(Finding::NoGo(format!(
            "no buyer got a payment page: see the provider's settings and its status. The rehearsal {id} is closed, and stays"
        )));
    }
    let refunded = refund_all(installation, id).await?;
    delete(installation, id).await?;
    Ok(Finding::Go(format!(
        "{} units sold to {} buyers, every invariant held, {refunded} payments given back, and {id} deleted",
        options.stock,
        2 * options.stock
    )))
}

fn opened_payments(report: &Report) -> bool {
    let checkouts = report.steps.iter().filter(|summary| summary.step == Step::Checkout);
    checkouts.flat_map(|summary| &summary.all.responses).any(|(label, count)| label == "200" && *count > 0)
}

/// Refunds every paid order of the rehearsal. Returns how many.
async fn refund_all(installation: &Installation, id: &str) -> Result<usize> {
    let mut refunded = 0;
    loop {
        // One that is being refunded is not paid any more.
        let paid = installation.read(&format!("/api/admin/orders?activity={id}&status=paid&limit=200")).await?;
        let orders: Vec<_> =
            paid["items"].as_array().into_iter().flatten().filter_map(|order| order["order_no"].as_str()).collect();
        if orders.is_empty() {
            return Ok(refunded);
        }
        for order_no in orders {
            let body = json!({"reason": "rehearsal"}).to_string();
            let path = format!("/api/admin/orders/{order_no}/refund");
            let answer = installation.admin(Method::POST, &path, &body).await?;
            if !(200..300).contains(&answer.status) {
                bail!("the refund of {order_no} is answered {}", answer.describe());
            }
            refunded += 1;
        }
    }
}

/// Deletes the rehearsal, once nothing of it is open.
async fn delete(installation: &Installation, id: &str) -> Result<()> {
    let deadline = Instant::now() + END_TIMEOUT;
    loop {
        let answer = installation.admin(Method::DELETE, &format!("/api/admin/activities/{id}"), "").await?;
        match answer.status {
            204 => return Ok(()),
            409 | 500..=599 if Instant::now() < deadline => tokio::time::sleep(POLL_INTERVAL).await,
            _ => return Err(anyhow::anyhow!(answer.describe())).context(format!("the rehearsal {id} is not deleted")),
        }
    }
}
