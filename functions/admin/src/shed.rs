//! Turns load shedding on or off: while it is on, challenges, tickets and reservations are refused (B9).

use domain::{
    api::operators::{Shedding, SheddingChanged},
    http::body,
};
use operations::{
    commands::{activities::OperatorContext, shed},
    upkeep::budget::Budget,
};
use platform::{
    http::{ApiError, Request, Response},
    ledger::SpinLedger,
    redis::SpinRedis,
    settings,
};

/// Handles `GET …/shed`.
pub async fn get() -> Result<Response, ApiError> {
    let on = shed::is_on(&SpinLedger::open().await).await?;
    Ok(Response::json(200, &Shedding { on }))
}

/// Handles `PUT …/shed`. `activities` in the response is the number of gates that were changed.
pub async fn put(request: &Request) -> Result<Response, ApiError> {
    let Shedding { on } = body::parse(&request.body)?;
    let secret = settings::load(settings::TICKET_SECRET).await?;
    let ledger = SpinLedger::open().await;
    let now = SpinRedis.now().await?;
    let context = OperatorContext {
        redis: &SpinRedis,
        sql: &ledger,
        ticket_secret: &secret,
        now,
        nonce: String::new(),
        rebuild_budget: Budget::REQUEST,
        may_change_money: false,
    };
    let activities = context.set_shedding(on).await?;
    Ok(Response::json(200, &SheddingChanged { on, activities }))
}
