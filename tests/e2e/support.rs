//! What all tests share: an app with verbs, answers that can be asked, patience.

// By path, so that the chaos suite can share them.
#[path = "support/app.rs"]
mod app;
#[path = "support/http.rs"]
mod http;
#[path = "support/identity.rs"]
mod identity;
#[path = "support/ledger.rs"]
mod ledger;
#[path = "support/money.rs"]
pub mod money;
#[path = "support/patience.rs"]
mod patience;
#[path = "support/sale.rs"]
pub mod sale;

pub use self::{
    app::TestApp,
    http::{Answer, Http},
    identity::Claims,
    patience::eventually,
    sale::{Buyer, Sale},
};
