//! Command-line flags of `farm`.

use anyhow::{Result, ensure};

/// Measures which share of a sale a farm of scalpers gets, for each human check.
///
/// Starts an app of its own. Prints a table in Markdown.
#[derive(clap::Args, Debug, Clone)]
pub struct Options {
    /// Accounts of the farm
    #[arg(long, default_value_t = 300)]
    pub accounts: usize,

    /// Addresses that the accounts share
    #[arg(long, default_value_t = 10)]
    pub addresses: usize,

    /// Processor time for proofs of work, in seconds
    #[arg(long, default_value_t = 20)]
    pub cpu_seconds: u64,

    /// Share of the pictures that the solver reads; for the others it guesses
    #[arg(long, default_value_t = 0.9)]
    pub accuracy: f64,

    /// Hosted checks that the farm buys
    #[arg(long, default_value_t = 50)]
    pub bought: usize,

    /// Honest buyers, each with an account and an address
    #[arg(long, default_value_t = 300)]
    pub buyers: usize,

    /// Units on sale, one for each user
    #[arg(long, default_value_t = 100)]
    pub stock: usize,

    /// Requests of each kind that one address has in half an hour, in the second sale of each check
    #[arg(long, default_value_t = 5)]
    pub per_address: u32,

    /// Milliseconds until an honest buyer has reacted to the start, at most; at least a tenth of it
    #[arg(long, default_value_t = 2_000)]
    pub reaction_ms: u64,

    /// Sales with each check
    #[arg(long, default_value_t = 3)]
    pub rounds: u32,

    /// Do not build the app first
    #[arg(long)]
    pub no_build: bool,
}

impl Options {
    /// Rejects flags that make no valid sale. The error says what to change.
    pub fn validate(&self) -> Result<()> {
        let numbers = [self.accounts, self.addresses, self.buyers, self.stock, self.rounds as usize];
        ensure!(
            numbers.iter().all(|number| *number > 0),
            "accounts, addresses, buyers, stock and rounds are at least 1"
        );
        ensure!(self.per_address > 0, "--per-address must be at least 1");
        ensure!((0.0..=1.0).contains(&self.accuracy), "--accuracy is a number from 0 to 1");
        Ok(())
    }
}
