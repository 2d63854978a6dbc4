//! Routes the requests of operators. Every change, every read of data about buyers and every refused call is logged.

use domain::{
    activity::ActivityState,
    api::operators::NoBody,
    http::{
        body,
        problem::{Code, FieldError, Problem},
        routes::{Admin, no_such_route},
    },
    ids::{ActivityId, SkuId},
    operators::Role,
};
use operations::commands::bans::BanSubject::User;
use platform::{
    auth, clock,
    http::{ApiError, Request, Response, not_found},
};

use crate::{
    activities, bans,
    call::{Call, Outcome},
    call_log, callbacks, changes, dead_letters, events, history, inbox, order_changes, orders, presale, shed, stats,
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
    let call = Call::new(request, &operator, endpoint, params);
    let role = required_role(&call);
    let result = if operator.may(role) {
        match refuse_unknown(&call) {
            Err(problem) => Err(problem.into()),
            Ok(()) => {
                let before = changes::load_activity(&call).await;
                let result = handle(&call).await;
                changes::record(&call, before, &result).await;
                result
            }
        }
    } else {
        let detail = format!("Your token does not have the role {}.", role.as_str());
        Err(Problem::new(Code::Forbidden, detail).into())
    };
    call_log::record(&call, &result).await;
    result.map(Outcome::into_response)
}

fn required_role(call: &Call<'_>) -> Role {
    match call.endpoint {
        Admin::CancelOrder
        | Admin::RefundOrder
        | Admin::ReplayCallback
        | Admin::RefundCallback
        | Admin::DismissCallback => Role::Money,
        // Who has a code may take part.
        Admin::ListCodes => Role::Operate,
        Admin::FindOrders if call.request.query_names().any(|name| name == "books") => Role::Read,
        Admin::ListOrders | Admin::FindOrders | Admin::GetOrder => Role::Fulfil,
        _ if call.request.method.is_safe() => Role::Read,
        _ => Role::Operate,
    }
}

/// Refuses what the route does not know: a mistyped name would be without effect.
fn refuse_unknown(call: &Call<'_>) -> Result<(), Problem> {
    let known = call.endpoint.query_parameters();
    let mut seen = Vec::new();
    let mut errors = Vec::new();
    for name in call.request.query_names() {
        if !known.contains(&name) {
            errors.push(FieldError::new(format!("?{name}"), "is not a parameter of this route"));
        } else if seen.contains(&name) {
            errors.push(FieldError::new(format!("?{name}"), "is there twice"));
        }
        seen.push(name);
    }
    if !errors.is_empty() {
        return Err(Problem::invalid(errors));
    }
    let body = &call.request.body;
    if body.is_empty() || call.endpoint.takes_body() {
        return Ok(());
    }
    body::parse_strict::<NoBody>(body, |_| Vec::new()).map(drop)
}

async fn handle(call: &Call<'_>) -> Result<Outcome, ApiError> {
    use Outcome::{Read, ReadBuyers};
    let Call { request, params: [first, second], ref subject, .. } = *call;
    let activity = || ActivityId::parse(first).map_err(|_| not_found("There is no such sale."));
    Ok(match call.endpoint {
        Admin::ListActivities => activities::list(request).await?,
        Admin::GetActivity => activities::get(request, &activity()?).await?,
        Admin::PutActivity => activities::put(request, first, call.operator.may(Role::Money)).await?,
        Admin::DeleteActivity => activities::delete(&activity()?).await?,
        Admin::Publish => activities::set_state(&activity()?, ActivityState::Published).await?,
        Admin::Pause => activities::set_state(&activity()?, ActivityState::Paused).await?,
        Admin::Resume => activities::resume(&activity()?).await?,
        Admin::Close => activities::set_state(&activity()?, ActivityState::Closed).await?,
        Admin::PutAnnouncement => activities::announce(request, &activity()?).await?,
        Admin::RotateStartKey => activities::rotate_start_key(&activity()?).await?,
        Admin::Restock => {
            let sku = SkuId::parse(second).map_err(|_| not_found("There is no such SKU."))?;
            activities::restock(request, &activity()?, &sku).await?
        }
        Admin::ListCodes => Read(presale::list(&activity()?).await?),
        Admin::MakeCodes => presale::make(request, &activity()?).await?,
        Admin::AddCodes => presale::add(request, &activity()?).await?,
        Admin::RemoveCode => presale::remove(&activity()?, second).await?,
        Admin::Stats => Read(stats::stats(&activity()?).await?),
        Admin::History => Read(history::list(request, &activity()?).await?),
        Admin::Audit => Read(stats::audit(&activity()?).await?),
        Admin::ListOrders => ReadBuyers(orders::list(request, &activity()?).await?),
        Admin::Rebuild => stats::rebuild(request, &activity()?).await?,
        Admin::ListDeadLetters => ReadBuyers(dead_letters::list(request).await?),
        Admin::ReplayDeadLetter => dead_letters::requeue(first).await?,
        Admin::DismissDeadLetter => dead_letters::dismiss(subject).await?,
        Admin::FindOrders => ReadBuyers(orders::find(call).await?),
        Admin::GetOrder => ReadBuyers(orders::get(call).await?),
        Admin::CancelOrder => order_changes::cancel(call).await?,
        Admin::RefundOrder => order_changes::refund(call).await?,
        Admin::ExtendOrder => order_changes::extend(call).await?,
        Admin::ListCallbacks => ReadBuyers(callbacks::list(request).await?),
        Admin::ReplayCallback => callbacks::resolve(subject, "replay").await?,
        Admin::RefundCallback => callbacks::resolve(subject, "refund").await?,
        Admin::DismissCallback => callbacks::resolve(subject, "dismiss").await?,
        Admin::ListRefunds => ReadBuyers(callbacks::refunds(request).await?),
        Admin::ListEvents => Read(events::list(request).await?),
        Admin::TestEvents => events::test().await?,
        Admin::ReplayEvents => events::resend(request).await?,
        Admin::EnableEvents => events::enable().await?,
        Admin::ListBans => ReadBuyers(bans::list(request).await?),
        Admin::BanUser => bans::ban(request, &User(bans::parse_user(subject)?)).await?,
        Admin::LiftUserBan => bans::lift(&User(bans::parse_user(subject)?)).await?,
        Admin::BanAddress => bans::ban(request, &bans::parse_address(subject)?).await?,
        Admin::LiftAddressBan => bans::lift(&bans::parse_address(subject)?).await?,
        Admin::GetStrikes => ReadBuyers(bans::strikes(bans::parse_user(subject)?).await?),
        Admin::ClearStrikes => bans::clear_strikes(&bans::parse_user(subject)?).await?,
        Admin::GetUser => ReadBuyers(orders::get_user(call).await?),
        Admin::EraseUser => orders::erase_user(call).await?,
        Admin::GetShedding => Read(shed::get().await?),
        Admin::PutShedding => shed::put(request).await?,
        Admin::ListChanges => ReadBuyers(changes::list(request).await?),
        Admin::Inbox => Read(inbox::list().await?),
    })
}
