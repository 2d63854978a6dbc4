//! What a person sees while the sale runs: a bar per phase, or a line per phase where there is no terminal.

use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// All bars of a sale.
pub struct Progress {
    bars: MultiProgress,
    /// Buyers signed in.
    pub signed_in: ProgressBar,
    /// Tickets.
    pub tickets: ProgressBar,
    /// Visits with an answer.
    pub reserved: ProgressBar,
    /// Winners who are done.
    pub orders: ProgressBar,
    /// Waiting for the books to come to rest.
    pub settling: ProgressBar,
    /// Orders looked at once more.
    pub checking: ProgressBar,
}

impl Progress {
    /// Bars for `buyers` who make `visits`; each is shown once it is begun.
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
            settling: ProgressBar::new_spinner().with_style(spinner_style()).with_prefix("settle"),
            checking: bar("check", 0),
            bars,
        }
    }

    /// Shows a bar.
    pub fn begin(&self, bar: &ProgressBar) {
        let bar = self.bars.add(bar.clone());
        bar.reset();
        bar.enable_steady_tick(Duration::from_millis(100));
    }

    /// Ends a bar and leaves it on the screen.
    pub fn end(&self, bar: &ProgressBar) {
        bar.disable_steady_tick();
        if bar.is_hidden() {
            eprintln!("{}: {} in {:.1} s", bar.prefix(), bar.position(), bar.elapsed().as_secs_f64());
        }
        bar.abandon();
    }

    /// Says something above the bars.
    pub fn print(&self, text: &str) {
        if self.bars.is_hidden() {
            eprintln!("{text}");
        } else {
            // A terminal that is gone cannot be told anything.
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
