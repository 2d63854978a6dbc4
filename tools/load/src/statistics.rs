//! Median and range of measured values.

/// The middle value, or the mean of the two middle values; 0 without values.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => sorted[odd / 2],
        even => (sorted[even / 2 - 1] + sorted[even / 2]) / 2.0,
    }
}

/// Lowest and highest value; zeros without values.
pub fn range(values: &[f64]) -> (f64, f64) {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    (if low.is_finite() { low } else { 0.0 }, values.iter().copied().fold(0.0, f64::max))
}

/// Median, lowest and highest value, with so many `decimals`: `2.0 (1.0–3.0)`.
pub fn median_and_range(values: &[f64], decimals: usize) -> String {
    let (low, high) = range(values);
    format!("{:.decimals$} ({low:.decimals$}–{high:.decimals$})", median(values))
}
