//! Payments: what buyers ask for, what providers are asked, and what providers report.

pub mod callbacks;
pub mod checkout;
pub mod commands;
pub mod provider;
pub mod refunds;
pub mod sessions;
