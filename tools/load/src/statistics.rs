//! Median and range of measured values.

use serde::{Deserialize, Serialize};

/// A value that was measured in several rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    pub median: f64,
    pub lowest: f64,
    pub highest: f64,
}

impl Spread {
    /// `None` without values.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let median = f64::midpoint(*sorted.get((sorted.len().max(1) - 1) / 2)?, sorted[sorted.len() / 2]);
        Some(Self { median, lowest: sorted[0], highest: sorted[sorted.len() - 1] })
    }

    /// Half of the range, in percent of the median.
    pub fn noise(self) -> f64 {
        (self.highest - self.lowest) / 2.0 / self.median * 100.0
    }

    /// Median and range, with so many `decimals`: `2.0 (1.0–3.0)`.
    pub fn text(self, decimals: usize) -> String {
        format!("{:.decimals$} ({:.decimals$}–{:.decimals$})", self.median, self.lowest, self.highest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_ignores_an_outlier_and_the_range_shows_it() {
        assert_eq!(Spread::of(&[0.9, 1.0, 0.1]), Some(Spread { median: 0.9, lowest: 0.1, highest: 1.0 }));
        let even = Spread::of(&[3.0, 1.0]).unwrap();
        assert_eq!((even.median, even.noise()), (2.0, 50.0));
        assert_eq!(even.text(1), "2.0 (1.0–3.0)");
        assert_eq!(Spread::of(&[]), None);
    }
}
