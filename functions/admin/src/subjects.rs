//! Names the subject of an operator's call in one spelling.
//!
//! A path can spell a user, an address or a callback in several ways. The log and the operator changes have one, so that
//! a search for it finds every call.

use domain::routes::Admin;
use platform::http::percent_decode;
use workflows::operator::bans::BanSubject;

use crate::bans;

/// Returns the subject of a call with these path parameters; empty if there are none. Parameters that name nothing valid
/// are returned as they are.
pub fn name(endpoint: Admin, params: [&str; 2]) -> String {
    let parsed = match endpoint {
        Admin::BanUser | Admin::LiftUserBan | Admin::GetStrikes | Admin::ClearStrikes => {
            bans::parse_user(params[0]).ok()
        }
        Admin::BanAddress | Admin::LiftAddressBan => bans::parse_address(params[0]).ok(),
        Admin::ReplayCallback | Admin::RefundCallback | Admin::DismissCallback => return percent_decode(params[0]),
        _ => None,
    };
    match parsed {
        Some(BanSubject::User(user)) => user.into(),
        Some(BanSubject::Ip(address)) => address,
        None => params.into_iter().filter(|param| !param.is_empty()).collect::<Vec<_>>().join("/"),
    }
}
