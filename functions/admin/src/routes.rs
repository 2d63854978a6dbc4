//! Routes the requests of operators. Every successful change is logged as an `audit` event.

use domain::{
    activity::ActivityState,
    ids::{ActivityId, SkuId},
    routes::Admin,
};
use platform::{
    auth,
    http::{ApiError, Request, Response, not_found},
    log,
};

use crate::{activities, bans, callbacks, dead_letters, events, health, metrics, orders, shed, stats};

/// Calls the handler of the request's route; `/api/admin/…` requires the admin token.
pub async fn route(request: &Request) -> Result<Response, ApiError> {
    let found = request.route();
    if request.path().starts_with("/api/admin/") {
        // First, so that other callers do not learn which routes there are.
        auth::require_token(request, "admin_token").await?;
    }
    let (endpoint, params) = found?;
    let response = handle(request, endpoint, params).await?;
    if !request.method.is_safe() {
        let fields = [
            ("method", request.method.as_str().into()),
            ("path", request.path().into()),
            ("status", i64::from(response.status).into()),
            ("request_id", request.request_id.as_str().into()),
        ];
        log::info("audit", &fields);
    }
    Ok(response)
}

async fn handle(request: &Request, endpoint: Admin, [first, second]: [&str; 2]) -> Result<Response, ApiError> {
    let activity = || ActivityId::parse(first).map_err(|_| not_found("There is no such sale."));
    match endpoint {
        Admin::Live => Ok(health::live()),
        Admin::Ready => health::ready(request).await,
        Admin::Metrics => metrics::get(request).await,
        Admin::ListActivities => activities::list().await,
        Admin::GetActivity => activities::get(&activity()?).await,
        Admin::PutActivity => activities::put(request, first).await,
        Admin::Publish => activities::set_state(&activity()?, ActivityState::Published).await,
        Admin::Pause => activities::set_state(&activity()?, ActivityState::Paused).await,
        Admin::Resume => activities::resume(&activity()?).await,
        Admin::Close => activities::set_state(&activity()?, ActivityState::Closed).await,
        Admin::RotateStartKey => activities::rotate_start_key(&activity()?).await,
        Admin::Restock => {
            let sku = SkuId::parse(second).map_err(|_| not_found("There is no such SKU."))?;
            activities::restock(request, &activity()?, &sku).await
        }
        Admin::Stats => stats::stats(&activity()?).await,
        Admin::Audit => stats::audit(&activity()?).await,
        Admin::ListOrders => orders::list(request, &activity()?).await,
        Admin::Rebuild => stats::rebuild(request, &activity()?).await,
        Admin::ListDeadLetters => dead_letters::list(request).await,
        Admin::ReplayDeadLetter => dead_letters::requeue(first).await,
        Admin::GetOrder => orders::get(request, first).await,
        Admin::ListCallbacks => callbacks::list().await,
        Admin::ReplayCallback => callbacks::resolve(first, "replay").await,
        Admin::RefundCallback => callbacks::resolve(first, "refund").await,
        Admin::DismissCallback => callbacks::resolve(first, "dismiss").await,
        Admin::ListRefunds => callbacks::refunds().await,
        Admin::ListEvents => events::list().await,
        Admin::ReplayEvents => events::resend(request).await,
        Admin::EnableEvents => events::enable().await,
        Admin::BanUser => bans::ban(request, &bans::parse_user(first)?).await,
        Admin::LiftUserBan => bans::lift(&bans::parse_user(first)?).await,
        Admin::BanAddress => bans::ban(request, &bans::parse_address(first)?).await,
        Admin::LiftAddressBan => bans::lift(&bans::parse_address(first)?).await,
        Admin::GetStrikes => bans::strikes(first).await,
        Admin::ClearStrikes => bans::clear_strikes(first).await,
        Admin::GetShedding => shed::get().await,
        Admin::PutShedding => shed::put(request).await,
    }
}
