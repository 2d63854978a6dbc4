//! Shows the progress of a sale: a bar per phase, or a line without a terminal.

use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

pub struct Progress {
    bars: MultiProgress,
    pub signed_in: ProgressBar,
    pub tickets: ProgressBar,
    pub reserved: ProgressBar,
    pub orders: ProgressBar,
    pub finishing: ProgressBar,
    pub checking: ProgressBar,
}

impl Progress {
    /// Creates bars for `buyers` buyers and `visits` visits. Each is shown when it begins.
    pub fn new(buyers: usize, visits: usize) -> Self {
        let bars = MultiProgress::new();
        let bar = |name: &'static str, length: usize| {
            ProgressBar::new(length as u64)
                .with_style(style("{prefix:>8} {bar:32} {human_pos}/{human_len} {per_sec:.0} {elapsed}"))
                .with_prefix(name)
        };
        Self {
            signed_in: bar("sign in", buyers),
            tickets: bar("tickets", visits),
            reserved: bar("reserve", visits),
            orders: bar("orders", 0),
            finishing: ProgressBar::new_spinner()
                .with_style(style("{prefix:>8} {spinner} {msg} {elapsed}"))
                .with_prefix("finish"),
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

/// A style from a template, which is known to be valid.
pub fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
