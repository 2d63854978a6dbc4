//! Shows what needs a person (G22).

use domain::api::Page;
use operations::commands::inbox::{self, InboxItem, InboxKind};
use platform::{
    http::{ApiError, Response},
    ledger::SpinLedger,
    redis::SpinRedis,
    settings,
};
use stores::ledger::clock;

use crate::readiness;

/// Handles `GET …/inbox`: up to 100 items, the oldest first.
pub async fn list() -> Result<Response, ApiError> {
    let (ledger, url) = (SpinLedger::open_for_batch().await, settings::load(settings::EVENTS_URL).await?);
    let now = clock::now(&ledger).await?;
    let redis_ahead_ms = SpinRedis.now().await.ok().map(|redis_now| redis_now.0 - now.0);
    let mut items = inbox::load(&SpinRedis, &ledger, &url, now, redis_ahead_ms).await?;
    let not_ready = |fault| InboxItem::new(InboxKind::NotReady, None, None, Some(fault));
    items.extend(readiness::faults().await?.into_iter().map(not_ready));
    Ok(Response::json(200, &Page { items: inbox::sorted(items), next: None }))
}
