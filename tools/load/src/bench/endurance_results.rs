//! The results of the endurance measurements, against their goals.

use serde::Serialize;

/// The results of one run.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Endurance {
    /// Orders in the full activity.
    pub orders: usize,
    /// Bytes of Redis memory per order. Goal: at most 600.
    pub bytes_per_order: f64,
    /// Reservations per second in the full activity relative to an empty one measured right before or after (median).
    /// Goal: at least 0.95.
    pub full_to_empty: f64,
    /// Lowest and highest of those ratios.
    pub full_to_empty_range: (f64, f64),
    /// Orders that were due to expire.
    pub due: usize,
    /// Seconds until all of them had expired. Goal: at most 2.
    pub sweep_seconds: f64,
}

impl Endurance {
    /// The results as text for a terminal.
    pub fn text(&self) -> String {
        let label = |good: bool| if good { "ok" } else { "below" };
        format!(
            "endurance     {:.0} bytes of Redis per order over {} orders, goal 600 {}\n              \
             {:.2} ({:.2}–{:.2}) times the reservations of an empty sale beside them, goal 0.95 {}\n              \
             {} due orders swept in {:.2} s, goal 2 {}",
            self.bytes_per_order,
            self.orders,
            label(self.bytes_per_order <= 600.0),
            self.full_to_empty,
            self.full_to_empty_range.0,
            self.full_to_empty_range.1,
            label(self.full_to_empty >= 0.95),
            self.due,
            self.sweep_seconds,
            label(self.sweep_seconds <= 2.0),
        )
    }
}
