//! SQL of this slice. [`stores::ledger`] says what the errors of all its functions mean.

pub mod addresses;
pub mod books;
pub mod callback_outcomes;
pub mod callback_rows;
pub mod disputes;
pub mod partial_refunds;
pub mod refund_parts;
pub mod refunds;
pub mod sessions;
pub mod unprocessed;
