//! Shows how the stock of a sale went (G22).

use domain::{api::Page, ids::ActivityId};
use operations::ledger::history::{self, HistoryEntry};
use platform::{
    http::{ApiError, Request, Response, not_found},
    ledger::SpinLedger,
    paging,
};
use sale::ledger::activities;

/// Maximum and default number of entries in a page: all of five SKUs.
const MAX_PAGE: i64 = 3_600;

/// Handles `GET …/activities/:activity/history?before=&limit=`: what sweeps recorded last, the oldest of it first, as a chart
/// shows it.
pub async fn list(request: &Request, activity: &ActivityId) -> Result<Response, ApiError> {
    let before = paging::before(request);
    let before = before.as_deref().map(history::parse_cursor).transpose()?;
    let limit = paging::limit(request, MAX_PAGE)?;
    let ledger = SpinLedger::open_for_batch().await;
    activities::load(&ledger, activity).await?.ok_or_else(|| not_found("There is no such sale."))?;
    let found = history::list(&ledger, activity, before, limit + 1).await?;
    let mut page = Page::new(found, limit, HistoryEntry::cursor);
    page.items.reverse();
    Ok(Response::json(200, &page))
}
