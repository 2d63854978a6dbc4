//! Picture puzzles for human checks (B5), drawn from a seed.
//!
//! The answer is recomputed from the same seed. The same seed gives the same puzzle on every machine that runs the same
//! version.

pub mod slider;
pub mod sum;

mod background;
mod glyphs;
mod picture;
