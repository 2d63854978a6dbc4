//! The report as JSON, and as an HTML page: verdict, plots, steps.

use std::path::Path;

use anyhow::Result;
use maud::{DOCTYPE, PreEscaped, html};

use super::{plots, report::Report, verdict::Finding};
use crate::{meter::StepSummary, table::write_file};

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
table{border-collapse:collapse;width:100%}td,th{padding:.2rem .6rem;text-align:left;border-bottom:1px solid #ddd}\
td{font-variant-numeric:tabular-nums}svg{max-width:100%;height:auto}.ok{color:#06702e}\
.broken{color:#b00020;font-weight:bold}.unknown{color:#8a5a00;font-weight:bold}";

/// Writes `sale.json` and `sale.html` into `directory`.
pub fn write(report: &Report, directory: &Path) -> Result<()> {
    write_file(directory, "sale.json", serde_json::to_vec_pretty(report)?)?;
    write_file(directory, "sale.html", html(report)?)
}

/// The whole page, without external resources.
pub fn html(report: &Report) -> Result<String> {
    let plots = [plots::responses(report)?, plots::latency(report)?, plots::stock(report)?];
    let sale = &report.sale;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Stampede: " (report.activity) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (report.verdict.conclusion()) }
                p {
                    (sale.buyers) " buyers, " (sale.skus) " × " (sale.stock) " units, at most " (sale.per_user)
                    " per user, " (sale.pay_timeout) " s to pay; " (report.activity) " at " (report.url) ", seed "
                    (report.seed) "."
                }
                @if let Some(line) = &report.line {
                    p { "Line: " (line) "." }
                }
                table {
                    @for result in &report.verdict.results {
                        @let (label, class) = match result.finding {
                            Finding::Ok => ("ok", "ok"),
                            Finding::Unknown => ("unknown", "unknown"),
                            Finding::Broken => ("broken", "broken"),
                        };
                        tr { th { (result.id) } td { (result.promise) } td class=(class) { (label) } td { (result.numbers) } }
                    }
                }
                @for plot in &plots { (PreEscaped(plot)) }
                table {
                    tr { @for heading in StepSummary::HEADINGS { th { (heading) } } }
                    @for step in &report.steps {
                        tr { @for cell in step.cells() { td { (cell) } } }
                    }
                }
                p { "The gate was seen open " (report.opened_late_ms) " ms after the start. Latency counts from the moment a request was due." }
            }
        }
    };
    Ok(page.into_string())
}
