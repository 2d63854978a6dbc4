//! Whether the stores work, buyers are let in, and the planned sale fits.

use anyhow::Result;
use clap::Parser;
use http::Method;

use super::{Finding, Planned, installation::Installation};
use crate::capacity::{self, Costs};

/// Requests in a row that must not meet a limit.
const REQUESTS: usize = 20;

/// Stores and secrets.
pub async fn stores(installation: &Installation) -> Result<Finding> {
    let ready = installation.admin(Method::GET, "/readyz", "").await?;
    Ok(match ready.status {
        200 => Finding::Go("Redis, ledger, key-value and secrets are as they should be".to_owned()),
        _ => Finding::NoGo(format!("/readyz: {}", ready.describe())),
    })
}

/// What refuses buyers whatever they do.
pub async fn limits(installation: &Installation) -> Result<Finding> {
    if installation.read("/api/admin/shed").await?["on"] == true {
        return Ok(Finding::NoGo("load is shed, so nobody can buy: PUT /api/admin/shed {\"on\": false}".to_owned()));
    }
    for number in 1..=REQUESTS {
        let answer = installation.send(Method::GET, "/api/activities", &[], "").await?;
        if answer.status != 200 {
            let answer = answer.describe();
            return Ok(Finding::NoGo(format!("request {number} in a row for the list of sales is answered {answer}")));
        }
    }
    Ok(Finding::Go("no load is shed, and requests in a row are answered".to_owned()))
}

#[derive(Parser)]
struct Plan {
    #[command(flatten)]
    sale: capacity::Sale,
}

/// Whether the planned sale fits the app processes and one Redis.
pub fn capacity(planned: &Planned) -> Result<Finding> {
    let (Some(visitors), Some(units)) = (&planned.visitors, &planned.units) else {
        return Ok(Finding::Unchecked("not compared: pass --visitors, --units and --apps".to_owned()));
    };
    let (within, cores, apps) = (&planned.within, &planned.app_cores, planned.apps);
    let flags = ["plan", "--visitors", visitors, "--units", units, "--within", within, "--app-cores", cores];
    let sale = Plan::try_parse_from(flags)?.sale;
    let plan = capacity::plan(&sale, &Costs::read(None)?);
    let needed = (plan.cores() / sale.app_cores).ceil();
    let overloaded = plan
        .phases
        .iter()
        .find(|phase| phase.redis > 1.0)
        .map(|phase| format!("Redis is too slow for: {}", phase.name));
    let slow_payments = plan.payments_take.map(|seconds| format!("the ledger needs {seconds:.0} s for the payments"));
    let few_apps = (needed > f64::from(apps)).then(|| {
        format!("{needed:.0} app processes are needed, with {:.0} cores each, and there are {apps}", sale.app_cores)
    });
    let all: Vec<_> = [overloaded, slow_payments, few_apps].into_iter().flatten().collect();
    Ok(if all.is_empty() {
        Finding::Go(format!("{needed:.0} of {apps} app processes are needed"))
    } else {
        Finding::NoGo(format!("{}: see scripts/stampede plan", all.join("; ")))
    })
}
