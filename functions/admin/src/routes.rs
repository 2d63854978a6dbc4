//! Which request is answered where. Every change is an audit line in the log.

use domain::{
    activity::State,
    ids::{ActivityId, SkuId},
};
use platform::{
    auth,
    http::{Answer, Call, Failure, method_not_allowed, not_found},
    log,
};
use spin_sdk::http::Method;

use crate::{activities, bans, callbacks, dead_letters, events, health, metrics, orders, shed, stats};

/// Finds the answer.
pub async fn route(call: &Call) -> Result<Answer, Failure> {
    match (&call.method, &call.segments()[..]) {
        (&Method::GET, ["healthz"]) => return Ok(health::live()),
        (&Method::GET, ["readyz"]) => return health::ready().await,
        (&Method::GET, ["metrics"]) => return Ok(metrics::get().await),
        (_, ["healthz" | "readyz" | "metrics"]) => return Err(method_not_allowed("GET")),
        (_, ["api", "admin", ..]) => {}
        _ => return Err(not_found("No such route.")),
    }
    auth::operator(call, "admin_token").await?;
    let answer = operate(call).await?;
    if call.method != Method::GET {
        let fields = [
            ("method", call.method.as_str().into()),
            ("path", call.path.as_str().into()),
            ("status", i64::from(answer.status).into()),
            ("request_id", call.request_id.as_str().into()),
        ];
        log::info("audit", &fields);
    }
    Ok(answer)
}

async fn operate(call: &Call) -> Result<Answer, Failure> {
    let segments = call.segments();
    match (&call.method, &segments[2..]) {
        (&Method::GET, ["activities"]) => activities::list().await,
        (&Method::GET, ["activities", id]) => activities::get(&activity(id)?).await,
        (&Method::PUT, ["activities", id]) => activities::put(call, id).await,
        (&Method::POST, ["activities", id, "publish"]) => activities::set_state(&activity(id)?, State::Published).await,
        (&Method::POST, ["activities", id, "resume"]) => activities::resume(&activity(id)?).await,
        (&Method::POST, ["activities", id, "pause"]) => activities::set_state(&activity(id)?, State::Paused).await,
        (&Method::POST, ["activities", id, "close"]) => activities::set_state(&activity(id)?, State::Closed).await,
        (&Method::POST, ["activities", id, "rotate-start-key"]) => activities::rotate_start_key(&activity(id)?).await,
        (&Method::POST, ["activities", id, "skus", sku, "restock"]) => {
            let sku = SkuId::parse(sku).map_err(|_| not_found("There is no such SKU."))?;
            activities::restock(call, &activity(id)?, &sku).await
        }
        (&Method::GET, ["activities", id, "stats"]) => stats::stats(&activity(id)?).await,
        (&Method::GET, ["activities", id, "audit"]) => stats::audit(&activity(id)?).await,
        (&Method::POST, ["activities", id, "rebuild"]) => stats::rebuild(&activity(id)?).await,
        (&Method::GET, ["dead-letters"]) => dead_letters::list(call).await,
        (&Method::POST, ["dead-letters", order_no, "replay"]) => dead_letters::replay(order_no).await,
        (&Method::GET, ["orders", order_no]) => orders::get(call, order_no).await,
        (&Method::GET, ["callbacks"]) => callbacks::list().await,
        (&Method::POST, ["callbacks", id, how @ ("replay" | "refund" | "dismiss")]) => {
            callbacks::resolve(id, how).await
        }
        (&Method::GET, ["refunds"]) => callbacks::refunds().await,
        (&Method::GET, ["events"]) => events::list().await,
        (&Method::POST, ["events", "replay"]) => events::replay(call).await,
        (&Method::POST, ["events", "enable"]) => events::enable().await,
        (&Method::PUT, ["bans", kind @ ("user" | "ip"), name]) => bans::ban(call, &bans::who(kind, name)?).await,
        (&Method::DELETE, ["bans", kind @ ("user" | "ip"), name]) => bans::lift(&bans::who(kind, name)?).await,
        (&Method::GET, ["strikes", user]) => bans::strikes(user).await,
        (&Method::DELETE, ["strikes", user]) => bans::forgive(user).await,
        (&Method::GET, ["shed"]) => shed::get().await,
        (&Method::PUT, ["shed"]) => shed::put(call).await,
        (_, ["activities"]) => Err(method_not_allowed("GET")),
        (_, ["activities", _]) => Err(method_not_allowed("GET, PUT")),
        (_, ["activities", _, "publish" | "resume" | "pause" | "close" | "rotate-start-key"]) => {
            Err(method_not_allowed("POST"))
        }
        (_, ["activities", _, "stats" | "audit"]) => Err(method_not_allowed("GET")),
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

fn activity(id: &str) -> Result<ActivityId, Failure> {
    ActivityId::parse(id).map_err(|_| not_found("There is no such sale."))
}
