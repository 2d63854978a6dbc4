//! Names the subject of an operator's call in one spelling.
//!
//! A path can spell a user, an address or a callback in several ways. The log and the operator changes have one, so that
//! a search for it finds every call.

use domain::{
    api::operators::ReplayEvents,
    http::{body, routes::Admin},
};
use operations::commands::bans::BanSubject;
use platform::http::{Request, percent_decode};

use crate::bans;

/// Returns the subject of a call with these path parameters; empty if there are none. Parameters that name nothing valid
/// are returned as they are. Events are sent again for an order that the body names.
pub fn name(request: &Request, endpoint: Admin, params: [&str; 2]) -> String {
    let parsed = match endpoint {
        Admin::BanUser | Admin::LiftUserBan | Admin::GetStrikes | Admin::ClearStrikes => {
            bans::parse_user(params[0]).ok()
        }
        Admin::BanAddress | Admin::LiftAddressBan => bans::parse_address(params[0]).ok(),
        Admin::ReplayCallback | Admin::RefundCallback | Admin::DismissCallback => return percent_decode(params[0]),
        Admin::ReplayEvents => {
            let order_no = body::parse::<ReplayEvents>(&request.body).ok().and_then(|body| body.order_no);
            return order_no.map(String::from).unwrap_or_default();
        }
        _ => None,
    };
    match parsed {
        Some(BanSubject::User(user)) => user.into(),
        Some(BanSubject::Ip(address)) => address,
        None => params.into_iter().filter(|param| !param.is_empty()).collect::<Vec<_>>().join("/"),
    }
}
