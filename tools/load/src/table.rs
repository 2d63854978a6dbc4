//! Tables for a terminal: a rule below the header, numbers right-aligned.

use std::fmt::Display;

use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};

const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// An empty table.
pub fn new(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE).set_content_arrangement(ContentArrangement::Dynamic).set_header(header);
    table
}

/// A right-aligned cell.
pub fn number_cell(value: impl Display) -> Cell {
    Cell::new(value).set_alignment(CellAlignment::Right)
}
