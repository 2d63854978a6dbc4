//! Routes the requests of operators. Every successful change is logged as an `audit` event.

use domain::{
    activity::ActivityState,
    ids::{ActivityId, SkuId},
};
use platform::{
    auth,
    http::{ApiError, Request, Response, method_not_allowed, not_found},
    log,
};
use spin_sdk::http::Method;

use crate::{activities, bans, callbacks, dead_letters, events, health, metrics, orders, shed, stats};

/// Calls the handler of the request's route; `/api/admin/…` requires the admin token.
pub async fn route(request: &Request) -> Result<Response, ApiError> {
    match (&request.method, &request.segments()[..]) {
        (&Method::GET, ["healthz"]) => return Ok(health::live()),
        (&Method::GET, ["readyz"]) => return health::ready().await,
        (&Method::GET, ["metrics"]) => return Ok(metrics::get().await),
        (_, ["healthz" | "readyz" | "metrics"]) => return Err(method_not_allowed("GET")),
        (_, ["api", "admin", ..]) => {}
        _ => return Err(not_found("No such route.")),
    }
    auth::require_token(request, "admin_token").await?;
    let response = route_admin(request).await?;
    if request.method != Method::GET {
        let fields = [
            ("method", request.method.as_str().into()),
            ("path", request.path.as_str().into()),
            ("status", i64::from(response.status).into()),
            ("request_id", request.request_id.as_str().into()),
        ];
        log::info("audit", &fields);
    }
    Ok(response)
}

async fn route_admin(request: &Request) -> Result<Response, ApiError> {
    let segments = request.segments();
    match (&request.method, &segments[2..]) {
        (&Method::GET, ["activities"]) => activities::list().await,
        (&Method::GET, ["activities", id]) => activities::get(&activity_id(id)?).await,
        (&Method::PUT, ["activities", id]) => activities::put(request, id).await,
        (&Method::POST, ["activities", id, "publish"]) => {
            activities::set_state(&activity_id(id)?, ActivityState::Published).await
        }
        (&Method::POST, ["activities", id, "resume"]) => activities::resume(&activity_id(id)?).await,
        (&Method::POST, ["activities", id, "pause"]) => {
            activities::set_state(&activity_id(id)?, ActivityState::Paused).await
        }
        (&Method::POST, ["activities", id, "close"]) => {
            activities::set_state(&activity_id(id)?, ActivityState::Closed).await
        }
        (&Method::POST, ["activities", id, "rotate-start-key"]) => {
            activities::rotate_start_key(&activity_id(id)?).await
        }
        (&Method::POST, ["activities", id, "skus", sku, "restock"]) => {
            let sku = SkuId::parse(sku).map_err(|_| not_found("There is no such SKU."))?;
            activities::restock(request, &activity_id(id)?, &sku).await
        }
        (&Method::GET, ["activities", id, "stats"]) => stats::stats(&activity_id(id)?).await,
        (&Method::GET, ["activities", id, "orders"]) => orders::list(request, &activity_id(id)?).await,
        (&Method::GET, ["activities", id, "audit"]) => stats::audit(&activity_id(id)?).await,
        (&Method::POST, ["activities", id, "rebuild"]) => stats::rebuild(request, &activity_id(id)?).await,
        (&Method::GET, ["dead-letters"]) => dead_letters::list(request).await,
        (&Method::POST, ["dead-letters", order_no, "replay"]) => dead_letters::requeue(order_no).await,
        (&Method::GET, ["orders", order_no]) => orders::get(request, order_no).await,
        (&Method::GET, ["callbacks"]) => callbacks::list().await,
        (&Method::POST, ["callbacks", id, action @ ("replay" | "refund" | "dismiss")]) => {
            callbacks::resolve(id, action).await
        }
        (&Method::GET, ["refunds"]) => callbacks::refunds().await,
        (&Method::GET, ["events"]) => events::list().await,
        (&Method::POST, ["events", "replay"]) => events::resend(request).await,
        (&Method::POST, ["events", "enable"]) => events::enable().await,
        (&Method::PUT, ["bans", kind @ ("user" | "ip"), name]) => {
            bans::ban(request, &bans::parse_subject(kind, name)?).await
        }
        (&Method::DELETE, ["bans", kind @ ("user" | "ip"), name]) => {
            bans::lift(&bans::parse_subject(kind, name)?).await
        }
        (&Method::GET, ["strikes", user]) => bans::strikes(user).await,
        (&Method::DELETE, ["strikes", user]) => bans::clear_strikes(user).await,
        (&Method::GET, ["shed"]) => shed::get().await,
        (&Method::PUT, ["shed"]) => shed::put(request).await,
        (_, ["activities"]) => Err(method_not_allowed("GET")),
        (_, ["activities", _]) => Err(method_not_allowed("GET, PUT")),
        (_, ["activities", _, "publish" | "resume" | "pause" | "close" | "rotate-start-key"]) => {
            Err(method_not_allowed("POST"))
        }
        (_, ["activities", _, "stats" | "audit" | "orders"]) => Err(method_not_allowed("GET")),
        (_, ["activities", _, "rebuild"] | ["dead-letters", _, "replay"] | ["activities", _, "skus", _, "restock"]) => {
            Err(method_not_allowed("POST"))
        }
        (_, ["dead-letters" | "callbacks" | "refunds" | "events"] | ["orders", _]) => Err(method_not_allowed("GET")),
        (_, ["callbacks", _, "replay" | "refund" | "dismiss"] | ["events", "replay" | "enable"]) => {
            Err(method_not_allowed("POST"))
        }
        (_, ["bans", "user" | "ip", _]) => Err(method_not_allowed("PUT, DELETE")),
        (_, ["strikes", _]) => Err(method_not_allowed("GET, DELETE")),
        (_, ["shed"]) => Err(method_not_allowed("GET, PUT")),
        _ => Err(not_found("No such route.")),
    }
}

fn activity_id(id: &str) -> Result<ActivityId, ApiError> {
    ActivityId::parse(id).map_err(|_| not_found("There is no such sale."))
}
