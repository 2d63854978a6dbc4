//! SQL access to the ledger, the durable record of activities, orders and payments.
//!
//! No transaction spans two statements, because connections may be pooled or shared. Invariants are kept by single
//! conditional statements, and by the constraints and triggers in `sql/`.
//!
//! # Errors
//!
//! Functions of these modules return a [`StoreError`](crate::ports::StoreError): `LedgerUnavailable` if the statement
//! may or may not have run, `LedgerRefused` if a constraint rejected it and nothing was changed, `LedgerDataException` if
//! a value cannot be stored, `LedgerNotMigrated` if the tables do not exist yet, `Malformed` if a row cannot be parsed.
//! Functions document errors that mean more.

pub mod activities;
pub mod addresses;
pub mod backlog;
pub mod callback_outcomes;
pub(crate) mod deletion;
pub mod epochs;
pub mod errors;
pub mod events;
pub mod leases;
pub mod operator_changes;
pub mod order_changes;
pub mod orders;
pub mod payments;
pub mod rebuilds;
pub mod refunds;
pub mod row_reader;
pub mod schema;
pub mod sessions;
pub mod switches;
pub mod unprocessed;
pub mod unsettled;
