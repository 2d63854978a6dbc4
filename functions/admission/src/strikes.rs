//! The strikes of a visitor (B8).
//!
//! Without a human check only users at the limit matter. They are few, so an instance keeps them all for a second, and a
//! ticket costs no statement of its own.

use std::{collections::HashMap, rc::Rc};

use domain::{activity::HumanCheck, ids::UserId, time::Millis};
use operations::commands::bans;
use platform::{http::ApiError, ledger::SpinLedger, single_flight::Cached};

/// Users at the limit, with the time of the last strike; `None` if they are too many to keep.
type UsersAtLimit = Option<Rc<HashMap<UserId, Millis>>>;

thread_local! {
    static AT_LIMIT: Rc<Cached<UsersAtLimit>> = Rc::default();
}

/// Returns the number of the user's strikes that count at `now`. Without a human check, fewer than
/// [`bans::STRIKE_LIMIT`] may be returned as 0.
pub async fn count(user: &UserId, human_check: HumanCheck, now: Millis) -> Result<i64, ApiError> {
    let at_limit = if human_check == HumanCheck::None { users_at_limit(now).await? } else { None };
    let (strikes, last_at) = match at_limit {
        Some(users) => users.get(user).map_or((0, now), |last_at| (bans::STRIKE_LIMIT, *last_at)),
        None => bans::load_strikes(&SpinLedger::open().await, user).await?,
    };
    Ok(if last_at.plus(bans::STRIKE_TTL_MS) > now { strikes } else { 0 })
}

async fn users_at_limit(now: Millis) -> Result<UsersAtLimit, ApiError> {
    let fetch = async || Ok(bans::load_users_at_limit(&SpinLedger::open().await, now).await?.map(Rc::new));
    AT_LIMIT.with(Rc::clone).get_or_fetch(fetch).await
}
