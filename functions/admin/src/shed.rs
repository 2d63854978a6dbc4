//! The switch that sheds everything but paying, cancelling and polling (B9).

use domain::body;
use platform::{
    config,
    http::{Answer, Call, Failure},
    ledger::SpinLedger,
    redis::SpinRedis,
};
use serde::Deserialize;
use serde_json::json;
use workflows::operator::{activities::OperatorContext, shed};

#[derive(Deserialize)]
struct Shed {
    on: bool,
}

/// Whether it is on.
pub async fn get() -> Result<Answer, Failure> {
    let on = shed::is_on(&SpinLedger::open().await).await?;
    Ok(Answer::json(200, &json!({ "on": on })))
}

/// Turns it on or off.
pub async fn put(call: &Call) -> Result<Answer, Failure> {
    let Shed { on } = body::parse(&call.body)?;
    let secret = config::secret("ticket_secret").await?;
    let ledger = SpinLedger::open().await;
    let now = SpinRedis.now().await?;
    let desk = OperatorContext { redis: &SpinRedis, sql: &ledger, ticket_secret: &secret, now, nonce: String::new() };
    let sales = desk.shed(on).await?;
    Ok(Answer::json(200, &json!({ "on": on, "activities": sales })))
}
