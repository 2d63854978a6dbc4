//! What all tests share: an app with verbs, answers that can be asked, patience.

mod app;
mod http;
mod identity;
mod ledger;
pub mod money;
mod patience;
pub mod sale;

pub use self::{
    app::TestApp,
    http::{Answer, Http},
    identity::Claims,
    patience::eventually,
    sale::{Buyer, Sale},
};
