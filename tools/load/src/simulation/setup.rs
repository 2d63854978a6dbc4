//! Creates, publishes and closes the activity of a run, as the operator.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::options::Options;
use crate::{app::App, http::Call, meter::Step};

#[derive(Debug, Clone)]
pub struct TestActivity {
    /// Id of the activity, unique to this run.
    pub id: String,
    pub skus: Vec<String>,
    pub total: i64,
}

impl TestActivity {
    /// Generates a new id, so that earlier runs are not mistaken for this one.
    pub fn new(skus: u32, total: i64) -> Self {
        let run_id = format!("{:x}{:03x}", OffsetDateTime::now_utc().unix_timestamp(), fastrand::u16(..4096));
        Self { id: format!("load-{run_id}"), skus: (1..=skus).map(|n| format!("sku-{n}")).collect(), total }
    }

    /// The user id of the buyer with this index.
    pub fn user_id(&self, buyer: usize) -> String {
        format!("{}-{buyer}", self.id)
    }

    /// A path below the activity's public routes.
    pub fn path(&self, suffix: &str) -> String {
        format!("/api/activities/{}{suffix}", self.id)
    }

    /// A reservation of the SKU with this index.
    pub fn reservation(&self, sku: usize, quantity: u32, ticket: &str, start_key: &str) -> Call {
        let body = json!({"sku": self.skus[sku], "quantity": quantity, "ticket": ticket, "start_key": start_key});
        Call::post(self.path("/orders"), &body)
    }

    /// A path below the activity's admin routes.
    pub fn admin_path(&self, suffix: &str) -> String {
        format!("/api/admin/activities/{}{suffix}", self.id)
    }
}

#[derive(Debug, Clone)]
pub struct Rules {
    /// Time until it opens.
    pub start_in: Duration,
    /// Time to pay, in seconds.
    pub pay_timeout: u32,
    pub per_user: u32,
    /// The member `line` of the activity.
    pub line: Option<Value>,
}

impl Rules {
    pub fn from_options(options: &Options) -> Self {
        Self {
            start_in: options.start_in(),
            pay_timeout: options.pay_timeout,
            per_user: options.per_user,
            line: options.line.spec(),
        }
    }
}

/// Returns an error with advice if no app answers at `url`.
pub async fn check_reachable(app: &App, url: &str) -> Result<()> {
    if app.send(Step::Admin, Instant::now(), &Call::get("/healthz")).await.is_err() {
        bail!("nothing answers at {url}: start the app with scripts/up, or pass --url");
    }
    Ok(())
}

pub async fn publish(app: &App, activity: &TestActivity, rules: &Rules) -> Result<()> {
    let starts_at = OffsetDateTime::now_utc() + rules.start_in;
    let spec = activity_spec(activity, rules, starts_at)?;
    app.admin(Call::put(activity.admin_path(""), &spec), "creating the activity").await?;
    app.admin(Call::post(activity.admin_path("/publish"), &Value::Null), "publishing the activity").await?;
    Ok(())
}

/// Closes the activity, so that test activities do not accumulate in the list.
pub async fn close(app: &App, activity: &TestActivity) -> Result<()> {
    app.admin(Call::post(activity.admin_path("/close"), &Value::Null), "closing the activity").await?;
    Ok(())
}

fn activity_spec(activity: &TestActivity, rules: &Rules, starts_at: OffsetDateTime) -> Result<Value> {
    // Truncate to milliseconds: readers of the contract need not support a finer resolution.
    let starts_at = starts_at.replace_millisecond(starts_at.millisecond()).context("a time without fractions")?;
    let ends_at = starts_at + Duration::from_secs(3600);
    let skus: Vec<Value> = activity
        .skus
        .iter()
        .map(|sku| json!({"sku": sku, "name": sku, "image": "", "price": 990, "currency": "EUR", "total": activity.total}))
        .collect();
    let mut spec = json!({
        "title": format!("Load test {}", activity.id),
        "description": "Made by the load generator; closed when it ends.",
        "image": "",
        "rehearsal": true,
        "starts_at": starts_at.format(&Rfc3339)?,
        "ends_at": ends_at.format(&Rfc3339)?,
        "pay_timeout_seconds": rules.pay_timeout,
        "pay_extension_seconds": 0,
        "per_user": rules.per_user,
        "human_check": "none",
        "eligibility": {"members_only": false, "min_level": 0, "allow": []},
        "refund_restocks": true,
        // All buyers share one IP address.
        "limits": {"user": {"count": 60, "seconds": 10}, "ip": null, "all": null},
        "skus": skus,
    });
    if let Some(line) = &rules.line {
        spec["line"] = line.clone();
    }
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spec_lists_every_sku_and_has_no_limit_per_address() {
        let activity = TestActivity::new(2, 7);
        let rules = Rules { start_in: Duration::ZERO, pay_timeout: 9, per_user: 3, line: None };
        let spec = activity_spec(&activity, &rules, OffsetDateTime::UNIX_EPOCH).unwrap();
        assert_eq!(spec["starts_at"], "1970-01-01T00:00:00Z");
        assert_eq!(spec["skus"][1]["sku"], "sku-2");
        assert_eq!(spec["skus"][1]["total"], 7);
        assert_eq!(spec["pay_timeout_seconds"], 9);
        assert!(spec["limits"]["ip"].is_null() && spec["limits"].get("ip").is_some());
    }
}
