//! Command-line flags of `sale`.

use std::{path::PathBuf, time::Duration};

use anyhow::{Result, ensure};

use super::{line::options::LineOptions, payment_mix::PaymentMix};
use crate::target::TargetOptions;

/// Drives a whole sale against a running app and checks it.
///
/// Exit status: 0 if every invariant holds, 1 if one is broken, 2 if one could not be checked.
#[derive(clap::Args, Debug, Clone)]
pub struct Options {
    /// The app under test.
    #[command(flatten)]
    pub target: TargetOptions,

    /// Buyers, each with a user of its own
    #[arg(long, default_value_t = 5000)]
    pub buyers: u32,

    /// Units of each SKU
    #[arg(long, default_value_t = 100)]
    pub stock: u32,

    /// SKUs of the sale
    #[arg(long, default_value_t = 1)]
    pub skus: u32,

    /// Units of a SKU that one user may hold; each buyer orders 1 to this
    #[arg(long, default_value_t = 1)]
    pub per_user: u32,

    /// Share of the winners who pay
    #[arg(long, default_value_t = 0.7)]
    pub pay_share: f64,

    /// Share of the winners who cancel; the others let the order expire
    #[arg(long, default_value_t = 0.15)]
    pub cancel_share: f64,

    /// Where the paying winners pay
    #[arg(long, value_enum, default_value = "sandbox")]
    pub pay: PayAt,

    /// How the paying winners pay.
    #[command(flatten)]
    pub payment_mix: PaymentMix,

    /// The line.
    #[command(flatten)]
    pub line: LineOptions,

    /// Share of the buyers who try twice, with two tickets, for more units than they may hold
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

    /// Buyers per second [default: all within the jitter of the gate]
    #[arg(long)]
    pub rate: Option<f64>,

    /// Keep-alive connections of the buyers before they win; winners have a fourth as many of their own
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..))]
    pub connections: u16,

    /// Tries of a reservation before the buyer gives up, when the app asks to try again
    #[arg(long, default_value_t = 8)]
    pub tries: u32,

    /// Timeout of one request, in seconds
    #[arg(long, default_value_t = 10)]
    pub timeout: u32,

    /// Seconds that a buyer retries while the app does not answer
    #[arg(long, default_value_t = 120)]
    pub retry_timeout: u32,

    /// Seconds to wait, after the last order is due, until no order is queued, unpaid or being refunded
    #[arg(long, default_value_t = 60)]
    pub finish_timeout: u32,

    /// Seconds between two calls of the sweeper; 0 for no calls (if cron makes them)
    #[arg(long, default_value_t = 2)]
    pub sweep_every: u32,

    /// Seed that repeats the same buyers [default: random, and printed]
    #[arg(long)]
    pub seed: Option<u64>,

    /// Directory for `sale.json` and `sale.html` (the same with plots)
    #[arg(long)]
    pub report: Option<PathBuf>,
}

/// Where buyers pay.
#[derive(clap::ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayAt {
    /// At the app's sandbox
    Sandbox,
    /// At the payment page of the order: its button is a POST, as that of examples/payments and of stand-ins for Stripe
    Page,
    /// Not at all: the payment pages are opened, and the orders expire. A production installation allows nothing else
    Expire,
}

impl Options {
    /// Rejects flags that make no valid sale. The error says what to change.
    pub fn validate(&self) -> Result<()> {
        ensure!(self.buyers > 0 && self.skus > 0, "--buyers and --skus must be at least 1");
        ensure!(self.per_user > 0, "--per-user must be at least 1");
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
        let mix = PaymentMix { late: 0, refund: 0, ..self.payment_mix };
        ensure!(
            self.pay == PayAt::Sandbox || mix.total_percent() == 0,
            "only the sandbox declines payments, and takes two"
        );
        self.line.validate()?;
        ensure!(self.rate.is_none_or(|rate| rate > 0.0), "--rate must be above 0");
        ensure!(self.timeout > 0 && self.tries > 0, "--timeout and --tries must be at least 1");
        Ok(())
    }

    /// Time between publishing and the start: enough to fetch the tickets.
    pub fn start_in(&self) -> Duration {
        let seconds = self.start_in.unwrap_or(5 + self.buyers / 1500);
        Duration::from_secs(seconds.into())
    }

    /// Time to pay an order.
    pub fn pay_timeout(&self) -> Duration {
        Duration::from_secs(self.pay_timeout.into())
    }

    /// Time to pay a unit that was offered to the line.
    pub fn offer_timeout(&self) -> Duration {
        Duration::from_secs(self.line.offer_seconds.unwrap_or(self.pay_timeout).into())
    }

    /// How long a buyer retries a request.
    pub fn retry_timeout(&self) -> Duration {
        Duration::from_secs(self.retry_timeout.into())
    }
}
