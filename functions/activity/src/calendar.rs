//! Serves an activity as a calendar file.

use domain::{calendar::Event, language::Language};
use platform::{
    clock,
    http::{ApiError, Request, Response},
    settings,
};

use crate::info;

/// Handles `GET /api/activities/:activity/calendar.ics?lang=`: with the title in the language `lang`, if it has one.
pub async fn get(request: &Request, activity: &str) -> Result<Response, ApiError> {
    let (cached, cached_gate) = info::load(activity).await?;
    let now = clock::now();
    let summary = cached.document(cached_gate.as_deref(), now).summary;
    let language = request.query_param("lang").and_then(|tag| Language::try_from(tag.to_string()).ok());
    let title = language.unwrap_or_default().choose(summary.title, summary.titles);
    let shop_url = settings::load(settings::SHOP_URL).await?;
    let (id, starts_at, ends_at) = (summary.id, summary.starts_at, summary.ends_at);
    let file = Event { id, title, starts_at, ends_at, shop_url: &shop_url }.file(now);
    Ok(Response::with_body(200, "text/calendar; charset=utf-8", file))
}
