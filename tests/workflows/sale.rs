//! Tests of the slice `sale`: admission, limits, reservations.

pub mod admission;
pub mod human_checks;
pub mod limits;
pub mod line;
pub mod line_repairs;
pub mod long_line;
pub mod presale;
pub mod reserve;
pub mod strikes;
