//! What all tests share: an app with verbs, answers that can be asked, patience.

mod app;
mod http;
mod identity;
mod ledger;
mod money;
mod patience;
mod sale;

pub use self::{
    app::TestApp,
    http::{Answer, Http},
    identity::Claims,
    patience::eventually,
    sale::{Buyer, Sale},
};
