//! Creates the demo activity, which opens a minute after the first start.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime, format_description::well_known::Rfc3339};

use crate::http::Client;

/// Id of the demo activity.
pub const ACTIVITY: &str = "demo";

/// Creates and publishes the demo activity unless it exists. Returns its start time.
pub fn seed(client: &Client, token: &str) -> Result<String> {
    let response = client.get(&format!("/api/activities/{ACTIVITY}"))?;
    if response.status == 200 {
        let activity: Value = serde_json::from_str(&response.body).context("the demo sale cannot be read")?;
        return Ok(activity["starts_at"].as_str().unwrap_or_default().to_owned());
    }
    let now = OffsetDateTime::now_utc().replace_nanosecond(0)?;
    let starts_at = (now + Duration::minutes(1)).format(&Rfc3339)?;
    let activity = demo_activity(&starts_at, &(now + Duration::days(7)).format(&Rfc3339)?);
    let base = format!("/api/admin/activities/{ACTIVITY}");
    for (method, path, body) in [("PUT", base.clone(), &activity), ("POST", format!("{base}/publish"), &Value::Null)] {
        let response = client.send(method, &path, token, body)?;
        ensure!(
            (200..300).contains(&response.status),
            "{method} {path} answered {} {}",
            response.status,
            response.body
        );
    }
    Ok(starts_at)
}

fn demo_activity(starts_at: &str, ends_at: &str) -> Value {
    json!({
        "title": "Demo sale",
        "description": "A sale to try things on: it opens one minute after the first start and lasts a week.",
        "starts_at": starts_at,
        "ends_at": ends_at,
        "pay_timeout_seconds": 120,
        "pay_extension_seconds": 60,
        "per_user": 2,
        "human_check": "none",
        "refund_restocks": true,
        "skus": [
            {"sku": "camera", "name": "Instant camera", "image": "/demo/camera.svg", "price": 7900, "currency": "EUR", "total": 100},
            {"sku": "film", "name": "Film, ten pictures", "image": "/demo/film.svg", "price": 900, "currency": "EUR", "total": 1000},
            {"sku": "signed-print", "name": "Signed print", "image": "/demo/print.svg", "price": 4900, "currency": "EUR", "total": 1},
        ],
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_sku_of_the_demo_has_a_picture_that_is_served() {
        let pages = crate::root::find().unwrap().join("static");
        let activity = demo_activity("", "");
        for sku in activity["skus"].as_array().unwrap() {
            let image = sku["image"].as_str().unwrap_or_default();
            assert!(image.starts_with("/demo/") && pages.join(&image[1..]).is_file(), "{sku}");
        }
    }
}
