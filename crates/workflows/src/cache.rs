//! Gate and stock in Redis, loaded from the ledger.

pub mod warm_up;
