//! Payments: commands of buyers, calls to the provider, callbacks from the provider, refunds, addresses.

pub mod callbacks;
pub mod checkout;
pub mod commands;
pub mod ledger;
pub mod provider;
pub mod refunds;
pub mod scripts;
pub mod sessions;
