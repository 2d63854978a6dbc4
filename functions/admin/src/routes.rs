//! Routes the requests of operators. Every change, every read of data about buyers and every refused call is logged.

use domain::{
    activity::ActivityState,
    http::{
        problem::{Code, Problem},
        routes::{Admin, no_such_route},
    },
    ids::{ActivityId, SkuId},
    operators::{Operator, Role},
};
use platform::{
    auth, clock,
    http::{ApiError, Request, Response, not_found},
};

use crate::{
    activities, bans,
    call_log::{self, Call},
    callbacks, changes, dead_letters, events, orders, shed, stats, subjects,
};

/// Calls the handler of the request's route. `/api/admin/…` requires a token of an operator with the role that the
/// route needs.
pub async fn route(request: &Request) -> Result<Response, ApiError> {
    let found = request.route();
    if !request.path().starts_with("/api/admin/") {
        return Err(no_such_route().into());
    }
    // First, so that other callers do not learn which routes there are.
    let operator = match auth::operator(request).await {
        Ok(operator) => operator,
        Err(refusal) => {
            call_log::count_unauthenticated(clock::now());
            return Err(refusal);
        }
    };
    let (endpoint, params) = found?;
    let subject = subjects::name(request, endpoint, params);
    let role = required_role(request, endpoint);
    let call = Call { request, operator: &operator, endpoint, subject: &subject };
    let result = if operator.may(role) {
        let before = changes::load_activity(endpoint, params[0]).await;
        let result = handle(request, &operator, endpoint, params).await;
        if !request.method.is_safe() {
            changes::record(&call, before, params[0], &result).await;
        }
        result
    } else {
        let detail = format!("Your token does not have the role {}.", role.as_str());
        Err(Problem::new(Code::Forbidden, detail).into())
    };
    call_log::record(&call, &result).await;
    result
}

/// The role that a call needs.
fn required_role(request: &Request, endpoint: Admin) -> Role {
    match endpoint {
        Admin::ReplayCallback | Admin::RefundCallback | Admin::DismissCallback => Role::Money,
        _ if request.method.is_safe() => Role::Read,
        _ => Role::Operate,
    }
}

async fn handle(
    request: &Request,
    operator: &Operator,
    endpoint: Admin,
    [first, second]: [&str; 2],
) -> Result<Response, ApiError> {
    let activity = || ActivityId::parse(first).map_err(|_| not_found("There is no such sale."));
    match endpoint {
        Admin::ListActivities => activities::list(request).await,
        Admin::GetActivity => activities::get(request, &activity()?).await,
        Admin::PutActivity => activities::put(request, first, operator.may(Role::Money)).await,
        Admin::DeleteActivity => activities::delete(&activity()?).await,
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
        Admin::GetOrder => orders::get(request, &operator.name, first).await,
        Admin::ListCallbacks => callbacks::list(request).await,
        Admin::ReplayCallback => callbacks::resolve(first, "replay").await,
        Admin::RefundCallback => callbacks::resolve(first, "refund").await,
        Admin::DismissCallback => callbacks::resolve(first, "dismiss").await,
        Admin::ListRefunds => callbacks::refunds().await,
        Admin::ListEvents => events::list().await,
        Admin::ReplayEvents => events::resend(request).await,
        Admin::EnableEvents => events::enable().await,
        Admin::ListBans => bans::list(request).await,
        Admin::BanUser => bans::ban(request, &bans::parse_user(first)?).await,
        Admin::LiftUserBan => bans::lift(&bans::parse_user(first)?).await,
        Admin::BanAddress => bans::ban(request, &bans::parse_address(first)?).await,
        Admin::LiftAddressBan => bans::lift(&bans::parse_address(first)?).await,
        Admin::GetStrikes => bans::strikes(first).await,
        Admin::ClearStrikes => bans::clear_strikes(first).await,
        Admin::GetShedding => shed::get().await,
        Admin::PutShedding => shed::put(request).await,
        Admin::ListChanges => changes::list(request).await,
    }
}
