//! Closes a sale: its closing list, its books, and their comparison with the provider's reports (G21).

pub mod books;
pub mod checklist;
pub mod provider_report;
pub mod reconcile;

use std::{collections::BTreeSet, fs, path::PathBuf, time::Duration};

use anyhow::{Context, Result};

use self::{
    books::Entry,
    checklist::Item,
    provider_report::Report,
    reconcile::{Reconciliation, reconcile},
};
use crate::{http::Client, variables::Variables};

const TIMEOUT: Duration = Duration::from_secs(60);

/// Flags of `scripts/close` and `scripts/reconcile`.
#[derive(clap::Args, Debug, Clone)]
pub struct Options {
    /// The sale's id; `scripts/reconcile` compares all sales without it
    pub sale: Option<String>,

    /// URL of the app
    #[arg(long, env = "STAMPEDE_URL", default_value = "http://127.0.0.1:3000")]
    pub url: String,

    /// Token of an operator with the role `read` [default: from .stampede/env]
    #[arg(long, env = "STAMPEDE_ADMIN_TOKEN", hide_env_values = true, allow_hyphen_values = true)]
    pub admin_token: Option<String>,

    /// What the provider reports: Stripe's CSV of balance changes, or the JSON of a payment service (docs/payments.md); one
    /// for each provider
    #[arg(long, value_name = "FILE")]
    pub provider_report: Vec<PathBuf>,

    /// Where the books are written [default: <SALE>.books.csv]
    #[arg(long, value_name = "FILE")]
    pub books: Option<PathBuf>,

    /// The books of the orders that changed at this time or later, such as 2026-11-01T00:00:00Z. To compare them, the report
    /// must reach back to the first payment of each
    #[arg(long, value_name = "TIME")]
    pub updated_since: Option<String>,
}

/// The app, as an operator asks it.
pub struct Operator {
    client: Client,
    token: String,
    /// URL of the app.
    pub url: String,
}

impl Operator {
    /// Creates a client that has sent nothing yet.
    pub fn new(url: &str, token: String) -> Self {
        let url = url.trim_end_matches('/').to_owned();
        Self { client: Client::new(&url, TIMEOUT), token, url }
    }

    /// Reads a route below `/api/admin`. Returns the body, and the path of the next page in the header `link`.
    pub fn get(&self, path: &str) -> Result<(String, Option<String>)> {
        let response = self.client.send("GET", &format!("/api/admin{path}"), &self.token, &serde_json::Value::Null)?;
        anyhow::ensure!(
            response.status == 200,
            "GET /api/admin{path} was answered {}: {}",
            response.status,
            response.body
        );
        Ok((response.body, response.next))
    }
}

impl Options {
    fn operator(&self) -> Result<Operator> {
        let from_file = || {
            let mut variables = Variables::default();
            variables.read_lines(&fs::read_to_string(".stampede/env").ok()?).ok()?;
            variables.find("admin_token").map(str::to_owned)
        };
        let token = self.admin_token.clone().or_else(from_file);
        let token = token.context("no token: set STAMPEDE_ADMIN_TOKEN, or start the app with scripts/up")?;
        Ok(Operator::new(&self.url, token))
    }

    fn reports(&self) -> Result<Vec<Report>> {
        self.provider_report.iter().map(|path| Report::read(path)).collect()
    }

    /// Writes the books, and compares them with the provider's reports.
    fn reconcile(&self, operator: &Operator) -> Result<(PathBuf, Reconciliation)> {
        let sales = match &self.sale {
            Some(sale) => BTreeSet::from([sale.clone()]),
            None => books::list_sales(operator)?,
        };
        let text = books::read(operator, &sales, self.updated_since.as_deref())?;
        let name = self.sale.as_deref().unwrap_or("all-sales");
        let path = self.books.clone().unwrap_or_else(|| format!("{name}.books.csv").into());
        fs::write(&path, &text).with_context(|| format!("{} cannot be written", path.display()))?;
        let (entries, reports) = (Entry::parse_all(&text)?, self.reports()?);
        let mut result = reconcile(&sales, &entries, &reports);
        if entries.is_empty() && reports.is_empty() && has_price(operator, &sales)? {
            let what = "without --provider-report, a payment that never arrived here cannot be found";
            result.differences.push(what.to_owned());
        }
        Ok((path, result))
    }
}

/// Whether anything of the sales costs something.
fn has_price(operator: &Operator, sales: &BTreeSet<String>) -> Result<bool> {
    for sale in sales {
        let sale: serde_json::Value = serde_json::from_str(&operator.get(&format!("/activities/{sale}"))?.0)?;
        let skus = sale["skus"].as_array().into_iter().flatten();
        if skus.filter_map(|sku| sku["price"].as_i64()).any(|price| price > 0) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Writes the books of one sale or of all and compares them with the provider's reports. Returns whether they agree.
pub fn run_reconcile(options: &Options) -> Result<bool> {
    let (path, result) = options.reconcile(&options.operator()?)?;
    println!("{result}\nThe books: {}", path.display());
    Ok(result.differences.is_empty())
}

/// Runs the closing list of a sale. Returns whether nothing is open.
pub fn run_close(options: &Options) -> Result<bool> {
    let items = list(options)?;
    for item in &items {
        println!("{item}");
    }
    let open = items.iter().filter(|item| item.is_open()).count();
    println!("{}", if open == 0 { "closed".to_owned() } else { format!("not closed: {open} open") });
    Ok(open == 0)
}

/// The closing list of a sale. Writes the books.
pub fn list(options: &Options) -> Result<Vec<Item>> {
    let operator = options.operator()?;
    let sale = options.sale.as_deref().context("name the sale")?;
    let mut items = checklist::check(&operator, sale);
    items.extend(close_books(options, &operator, sale));
    Ok(items)
}

fn close_books(options: &Options, operator: &Operator, sale: &str) -> Vec<Item> {
    let command = format!("scripts/reconcile {sale} --provider-report FILE");
    match options.reconcile(operator) {
        Err(error) => vec![Item::open("the books are written and reconciled", format!("{error:#}"), command)],
        Ok((path, result)) => {
            let mut items = vec![Item::done(format!("the books are in {}", path.display()))];
            items.extend(result.notes.iter().cloned().map(Item::note));
            let reconciled = "the books agree with the provider";
            items.push(match result.differences.is_empty() {
                true => Item::done(format!("{reconciled}: {} payments", result.matched)),
                false => Item::open(reconciled, result.differences.join("; "), command),
            });
            items
        }
    }
}
