//! Picture puzzles for human checks (B5): drawn from a seed, and judged by drawing lots from the same seed again.
//!
//! Pure: the same seed makes the same puzzle on every machine that runs the same version.

pub mod slider;
pub mod sum;

mod background;
mod glyphs;
