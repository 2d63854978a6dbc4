//! Reports: tables for a terminal (a rule below the header, numbers right-aligned), and files.

use std::{fmt::Display, fs, path::Path};

use anyhow::{Context, Result};
use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};

const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

pub fn new(header: &[impl ToString]) -> Table {
    let mut table = Table::new();
    table
        .load_style(STYLE)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(header.iter().map(ToString::to_string));
    table
}

pub fn number_cell(value: impl Display) -> Cell {
    Cell::new(value).set_alignment(CellAlignment::Right)
}

/// Writes a file of a report into `directory`, which is created if it is missing.
pub fn write_file(directory: &Path, name: &str, content: impl AsRef<[u8]>) -> Result<()> {
    let path = directory.join(name);
    fs::create_dir_all(directory)
        .and_then(|()| fs::write(&path, content))
        .with_context(|| format!("cannot write {}: choose another --report", path.display()))
}
