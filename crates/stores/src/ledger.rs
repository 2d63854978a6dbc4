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

pub mod clock;
pub mod deletion;
pub mod errors;
pub mod leases;
pub mod row_reader;
pub mod schema;
pub mod switches;
