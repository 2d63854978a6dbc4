//! What grows from table to table of `--growth`.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Dimension {
    /// Orders in the sale.
    Orders,
    /// Open activities.
    Activities,
    /// App processes on the same stores.
    Processes,
}

impl Dimension {
    /// All, in the order of measurement: the largest sale comes last, because its rows stay in the ledger.
    pub const ALL: [Self; 3] = [Self::Activities, Self::Processes, Self::Orders];

    /// Name in the report, after a number.
    pub fn name(self) -> &'static str {
        match self {
            Self::Orders => "orders in the sale",
            Self::Activities => "open activities",
            Self::Processes => "app processes",
        }
    }

    /// The sizes to measure, smallest first; `orders` is the largest sale.
    pub fn sizes(self, orders: usize) -> Vec<usize> {
        match self {
            Self::Orders => [0, 10_000, 100_000].into_iter().filter(|size| *size < orders).chain([orders]).collect(),
            Self::Activities => vec![1, 10, 100, 1_000],
            Self::Processes => vec![1, 2, 4],
        }
    }
}
