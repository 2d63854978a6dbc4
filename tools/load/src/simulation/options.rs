//! The flags of `stampede sale`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::payment_mix::PaymentMix;
use super::robots::ROBOT_COUNT;
use crate::target::TargetOptions;

/// Drives a whole sale against a running app and judges it.
///
/// Ends with 0 when every invariant holds, 1 when one is broken, 2 when it could not be judged.
#[derive(clap::Args, Debug, Clone)]
pub struct Options {
    /// The app.
    #[command(flatten)]
    pub target: TargetOptions,

    /// Buyers, each a user of its own
    #[arg(long, default_value_t = 5000)]
    pub buyers: u32,

    /// Units of each SKU
    #[arg(long, default_value_t = 100)]
    pub stock: u32,

    /// SKUs of the sale
    #[arg(long, default_value_t = 1)]
    pub skus: u32,

    /// Units that one user may hold of a SKU
    #[arg(long, default_value_t = 1)]
    pub per_user: u32,

    /// Units of one order: each buyer draws 1 to this [default: as --per-user]
    #[arg(long)]
    pub quantity_max: Option<u32>,

    /// Share of the winners who pay
    #[arg(long, default_value_t = 0.7)]
    pub pay_share: f64,

    /// Share of the winners who cancel; the rest leaves and lets the order expire
    #[arg(long, default_value_t = 0.15)]
    pub cancel_share: f64,

    /// How those pay who do.
    #[command(flatten)]
    pub payment_mix: PaymentMix,

    /// Share of the buyers who come twice, with two tickets, for more than they may have
    #[arg(long, default_value_t = 0.02)]
    pub greedy_share: f64,

    /// Share of the buyers who send the same request twice at once (a double click)
    #[arg(long, default_value_t = 0.02)]
    pub double_share: f64,

    /// Seconds until an unpaid order expires
    #[arg(long, default_value_t = 20)]
    pub pay_timeout: u32,

    /// Seconds from publishing to the start [default: 5, and more for many buyers]
    #[arg(long)]
    pub start_in: Option<u32>,

    /// Buyers per second [default: all within the jitter that the gate asks for]
    #[arg(long)]
    pub rate: Option<f64>,

    /// Keep-alive connections of the crowd; winners have a fourth as many beside it
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..))]
    pub connections: u16,

    /// How often a buyer who is told to wait comes back before giving up
    #[arg(long, default_value_t = 8)]
    pub tries: u32,

    /// Seconds for one request
    #[arg(long, default_value_t = 10)]
    pub timeout: u32,

    /// Seconds that a buyer keeps asking while the app does not answer
    #[arg(long, default_value_t = 120)]
    pub patience: u32,

    /// Seconds to wait, after the last order is due, for the books to come to rest
    #[arg(long, default_value_t = 60)]
    pub settle: u32,

    /// Seconds between two calls of the sweeper; 0 leaves that to others
    #[arg(long, default_value_t = 2)]
    pub sweep_every: u32,

    /// Repeats the same crowd [default: random, and printed]
    #[arg(long)]
    pub seed: Option<u64>,

    /// Lets robots in, after a sale without them to compare with
    #[arg(long)]
    pub robots: bool,

    /// With --robots: how often; medians are compared
    #[arg(long, default_value_t = 1)]
    pub rounds: u32,

    /// Leaves the activity open afterwards
    #[arg(long)]
    pub keep_open: bool,

    /// Directory for `sale.json` and `sale.html`, the same with plots
    #[arg(long)]
    pub report: Option<PathBuf>,
}

impl Options {
    /// Refuses what makes no sale, in words that say what to change.
    pub fn validate(&self) -> Result<()> {
        ensure!(self.buyers > 0 && self.skus > 0, "--buyers and --skus must be at least 1");
        ensure!(self.per_user > 0, "--per-user must be at least 1");
        ensure!(
            (1..=self.per_user).contains(&self.quantity_max()),
            "--quantity-max must be between 1 and --per-user ({}): more is always refused",
            self.per_user
        );
        let shares = [self.pay_share, self.cancel_share, self.greedy_share, self.double_share];
        ensure!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "a share is a number from 0 to 1");
        ensure!(
            self.pay_share + self.cancel_share <= 1.0,
            "--pay-share and --cancel-share are more than all winners together"
        );
        ensure!(
            self.payment_mix.total_percent() <= 100,
            "--decline, --late, --twice and --refund are more than all who pay together"
        );
        ensure!(self.rate.is_none_or(|rate| rate > 0.0), "--rate must be above 0");
        ensure!(self.timeout > 0 && self.tries > 0, "--timeout and --tries must be at least 1");
        Ok(())
    }

    /// Units of one order at most.
    pub fn quantity_max(&self) -> u32 {
        self.quantity_max.unwrap_or(self.per_user)
    }

    /// Time between publishing and the start: enough to hand out the tickets.
    pub fn start_in(&self) -> Duration {
        let seconds = self.start_in.unwrap_or(5 + self.buyers / 1500);
        Duration::from_secs(seconds.into())
    }

    /// Everybody who comes: buyers, and robots where there are some.
    pub fn user_count(&self) -> usize {
        self.buyers as usize + if self.robots { ROBOT_COUNT } else { 0 }
    }

    /// How long a buyer keeps asking.
    pub fn retry_timeout(&self) -> Duration {
        Duration::from_secs(self.patience.into())
    }
}
