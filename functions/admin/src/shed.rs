//! Turns load shedding on or off: while it is on, challenges, tickets and reservations are refused (B9).

use domain::{
    api::operators::{Shedding, SheddingChanged},
    http::body,
};
use operations::commands::shed;
use platform::{
    http::{ApiError, Request, Response},
    ledger::SpinLedger,
    redis::SpinRedis,
};

use crate::call::Outcome;

/// Handles `GET …/shed`.
pub async fn get() -> Result<Response, ApiError> {
    let on = shed::is_on(&SpinLedger::open().await).await?;
    Ok(Response::json(200, &Shedding { on }))
}

/// Handles `PUT …/shed`. `activities` in the response is the number of gates that were changed.
pub async fn put(request: &Request) -> Result<Outcome, ApiError> {
    let Shedding { on } = body::parse_strict(&request.body, |_| Vec::new())?;
    let ledger = SpinLedger::open().await;
    let was_on = shed::is_on(&ledger).await?;
    let activities = shed::set(&SpinRedis, &ledger, on).await?;
    Ok(Outcome::changed(200, &SheddingChanged { on, activities }).only_if(on != was_on))
}
