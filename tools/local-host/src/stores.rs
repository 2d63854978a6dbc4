//! Implements the stores of `spin:key-value` and `spin:sqlite`.

mod database;
mod key_value;

use std::path::Path;

use anyhow::Context as _;

pub use self::{
    database::{Connection, Database, Rows},
    key_value::{KeyValueStore, Keys},
};

/// The largest result that is returned to a guest, or row of a streamed result, in bytes.
pub const MAX_RESULT_BYTES: usize = 128 << 20;

/// The label of the only store of each kind.
pub const DEFAULT: &str = "default";

fn create_parent(path: &Path) -> anyhow::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).with_context(|| format!("cannot create the directory {}", parent.display()))?;
    }
    Ok(())
}

fn too_large() -> String {
    format!("query result exceeds limit of {MAX_RESULT_BYTES} bytes")
}
