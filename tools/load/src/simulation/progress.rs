//! Shows the progress of a sale: a bar per phase, or a line without a terminal.

use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// The bars of a sale.
pub struct Progress {
    bars: MultiProgress,
    /// Buyers that are signed in.
    pub signed_in: ProgressBar,
    /// Tickets that are fetched.
    pub tickets: ProgressBar,
    /// Visits whose reservation has an outcome.
    pub reserved: ProgressBar,
    /// Orders whose buyer is done.
    pub orders: ProgressBar,
    /// The wait until the sale is finished.
    pub finishing: ProgressBar,
    /// Orders that are polled once more.
    pub checking: ProgressBar,
}

impl Progress {
    /// Creates bars for `buyers` buyers and `visits` visits. Each is shown when it begins.
    pub fn new(buyers: usize, visits: usize) -> Self {
        let bars = MultiProgress::new();
        let bar = |name: &'static str, length: usize| {
            ProgressBar::new(length as u64).with_style(bar_style()).with_prefix(name)
        };
        Self {
            signed_in: bar("sign in", buyers),
            tickets: bar("tickets", visits),
            reserved: bar("reserve", visits),
            orders: bar("orders", 0),
            finishing: ProgressBar::new_spinner().with_style(spinner_style()).with_prefix("settle"),
            checking: bar("check", 0),
            bars,
        }
    }

    /// Shows the bar and starts its clock.
    pub fn begin(&self, bar: &ProgressBar) {
        let bar = self.bars.add(bar.clone());
        bar.reset();
        bar.enable_steady_tick(Duration::from_millis(100));
    }

    /// Stops the bar and leaves it on the screen.
    pub fn end(&self, bar: &ProgressBar) {
        bar.disable_steady_tick();
        if bar.is_hidden() {
            eprintln!("{}: {} in {:.1} s", bar.prefix(), bar.position(), bar.elapsed().as_secs_f64());
        }
        bar.abandon();
    }

    /// Prints a line above the bars.
    pub fn print(&self, text: &str) {
        if self.bars.is_hidden() {
            eprintln!("{text}");
        } else {
            // An error means that the terminal is gone.
            let _ = self.bars.println(text);
        }
    }
}

fn bar_style() -> ProgressStyle {
    ProgressStyle::with_template("{prefix:>8} {bar:32} {human_pos}/{human_len} {per_sec:.0} {elapsed}")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn spinner_style() -> ProgressStyle {
    ProgressStyle::with_template("{prefix:>8} {spinner} {msg} {elapsed}")
        .unwrap_or_else(|_| ProgressStyle::default_spinner())
}
