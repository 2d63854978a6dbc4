//! SQL of this slice. [`stores::ledger`] says what the errors mean.

pub mod activities;
pub mod epochs;
pub mod items;
pub mod presale;
