//! Payments: commands of buyers, calls to the provider, callbacks from the provider.

pub mod callbacks;
pub mod checkout;
pub mod commands;
pub mod provider;
pub mod refunds;
pub mod sessions;
