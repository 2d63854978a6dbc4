//! Reports a sale as text.

use std::collections::BTreeMap;

use comfy_table::{Attribute, Cell, CellAlignment, Color, Table};
use serde::Serialize;

use super::{
    line::summary::LineSummary,
    observations::ObservedOrder,
    samples::StockSample,
    verdict::{Finding, Verdict},
};
use crate::{meter::StepSummary, table};

#[derive(Debug, Serialize)]
pub struct Report {
    pub activity: String,
    pub url: String,
    /// Seed that repeats the same buyers.
    pub seed: u64,
    pub sale: SaleParameters,
    /// Width of a timeline bucket, in milliseconds.
    pub timeline_step_ms: u64,
    /// Time from the start of the run to the opening of the gate, in milliseconds.
    pub opened_at_ms: u64,
    /// How long after its start the gate was first seen open, by the server's clock, in milliseconds.
    pub opened_late_ms: u64,
    pub steps: Vec<StepSummary>,
    pub stock: Vec<StockSample>,
    pub visits: BTreeMap<String, u64>,
    /// How the line went; `None` without one.
    pub line: Option<LineSummary>,
    /// Orders by intent and last status.
    pub ends: BTreeMap<String, u64>,
    pub verdict: Verdict,
    pub orders: Vec<ObservedOrder>,
}

#[derive(Debug, Serialize)]
pub struct SaleParameters {
    pub buyers: u32,
    pub skus: u32,
    pub stock: u32,
    pub per_user: u32,
    /// Time to pay, in seconds.
    pub pay_timeout: u32,
}

impl Report {
    pub fn text(&self) -> String {
        format!(
            "{}\nThe gate was seen open {} ms after the start; latency counts from the moment a request was due.\n\n\
             visits  {}\norders  {}\n{}\n{}\n{}",
            steps_table(&self.steps),
            self.opened_late_ms,
            format_counts(&self.visits),
            format_counts(&self.ends),
            self.line.as_ref().map_or_else(String::new, |line| format!("line    {line}\n")),
            verdict_table(&self.verdict),
            self.verdict.conclusion()
        )
    }
}

fn steps_table(steps: &[StepSummary]) -> Table {
    let mut table = table::new(&StepSummary::HEADINGS);
    for step in steps {
        table.add_row(step.cells());
    }
    table.column_iter_mut().skip(1).take(5).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}

fn verdict_table(verdict: &Verdict) -> Table {
    let mut table = table::new(&["", "promise", "verdict", "numbers"]);
    for result in &verdict.results {
        let (label, color) = match result.finding {
            Finding::Ok => ("ok", Color::Green),
            Finding::Unknown => ("UNKNOWN", Color::Yellow),
            Finding::Broken => ("BROKEN", Color::Red),
        };
        table.add_row([
            Cell::new(result.id),
            Cell::new(result.promise),
            Cell::new(label).fg(color).add_attribute(Attribute::Bold),
            Cell::new(&result.numbers),
        ]);
    }
    table
}

fn format_counts(counts: &BTreeMap<String, u64>) -> String {
    let parts: Vec<String> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}
