//! Writes the report of a sale to a directory.

use std::path::Path;

use anyhow::{Context, Result};

use super::page;
use super::report::Report;

impl Report {
    /// Writes `sale.json` and `sale.html` into `directory`.
    pub fn write(&self, directory: &Path) -> Result<()> {
        let files = [("sale.json", serde_json::to_vec_pretty(self)?), ("sale.html", page::html(self)?.into_bytes())];
        for (name, content) in files {
            let path = directory.join(name);
            std::fs::create_dir_all(directory)
                .and_then(|()| std::fs::write(&path, content))
                .with_context(|| format!("cannot write {}: choose another --report", path.display()))?;
        }
        Ok(())
    }
}
