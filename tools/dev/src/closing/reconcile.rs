//! Compares the books of a sale with what providers report: payment by payment.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use super::{
    books::Entry,
    provider_report::{Kind, Report},
};

/// What the comparison found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reconciliation {
    /// Payments that agree, with their refunds and disputes.
    pub matched: usize,
    /// What to know.
    pub notes: Vec<String>,
    /// What differs.
    pub differences: Vec<String>,
}

impl fmt::Display for Reconciliation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for difference in &self.differences {
            writeln!(f, "differs  {difference}")?;
        }
        for note in &self.notes {
            writeln!(f, "note     {note}")?;
        }
        write!(f, "{} payments agree, {} differences", self.matched, self.differences.len())
    }
}

/// The sums of a payment on one side.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Sums {
    order_no: String,
    paid: i64,
    refunded: i64,
    /// The currencies of both.
    currencies: BTreeSet<String>,
    /// The number of disputes; of the report, that took money.
    disputes: i64,
    /// Of the books: disputes that were lost, and that are open. Of the report: the money that disputes took and kept.
    lost: i64,
    open: i64,
    disputed: i64,
}

impl Sums {
    fn money(&self, amount: i64) -> String {
        format!("{amount} {}", Vec::from_iter(self.currencies.iter().map(String::as_str)).join("/"))
    }
}

/// Compares. A payment of the report counts if it names an order of the sales, or is in their books; it may have others, too.
pub fn reconcile(sales: &BTreeSet<String>, books: &[Entry], reports: &[Report]) -> Reconciliation {
    let mut result = Reconciliation::default();
    let is_sandbox = |entry: &&Entry| entry.provider == "sandbox";
    let sandbox = books.iter().filter(is_sandbox).filter(|entry| entry.entry != "refund").count();
    if sandbox > 0 {
        result.notes.push(format!("{sandbox} payments of the sandbox are no money"));
    }
    let books: Vec<&Entry> = books.iter().filter(|entry| !is_sandbox(entry)).collect();
    let ours = sum_books(&books);
    for provider in books.iter().map(|entry| entry.provider.as_str()).collect::<BTreeSet<_>>() {
        if reports.is_empty() || !provider.is_empty() && !reports.iter().any(|report| report.provider == provider) {
            result.differences.push(format!("no report of the provider {provider}: --provider-report"));
        }
    }
    let theirs = sum_reports(sales, &ours, reports);
    for payment in ours.keys().chain(theirs.keys()).collect::<BTreeSet<_>>() {
        let found = match (ours.get(payment), theirs.get(payment)) {
            (Some(ours), Some(theirs)) => compare(ours, theirs),
            (Some(_), None) if reports.is_empty() => continue,
            (Some(ours), None) => vec![format!("{} is not in the report", ours.money(ours.paid))],
            // Such as one for an order that a backup lacked, which an operator gave back.
            (None, Some(theirs)) if theirs.paid == theirs.refunded && theirs.disputed == 0 => {
                result.notes.push(format!("payment {payment} of order {} came and went back", theirs.order_no));
                continue;
            }
            (None, Some(theirs)) => vec![format!("{} is not in the books", theirs.money(theirs.paid))],
            (None, None) => continue,
        };
        let of_order = ours.get(payment).or(theirs.get(payment)).map(|sums| sums.order_no.clone()).unwrap_or_default();
        let name = |what: String| format!("payment {payment} of order {of_order}: {what}");
        result.matched += usize::from(found.is_empty());
        result.differences.extend(found.into_iter().map(name));
    }
    let others = reports.iter().flat_map(|report| &report.movements);
    let others = others.filter(|it| !theirs.contains_key(&it.payment)).map(|it| &it.payment).collect::<BTreeSet<_>>();
    if !others.is_empty() {
        result.notes.push(format!("{} payments of the report are of other sales or none", others.len()));
    }
    if !others.is_empty() && !reports.iter().all(|report| report.names_orders) {
        result.differences.push(
            "the report does not name all orders: a payment without an order cannot be found (column payment_metadata[order_no])".to_owned(),
        );
    }
    result
}

fn sum_books(books: &[&Entry]) -> BTreeMap<String, Sums> {
    let mut all: BTreeMap<String, Sums> = BTreeMap::new();
    for entry in books {
        let sums = all.entry(entry.payment.clone()).or_default();
        sums.order_no.clone_from(&entry.order_no);
        match (entry.entry.as_str(), entry.state.as_str()) {
            ("payment" | "second_payment", _) => sums.paid += entry.amount,
            ("refund", "confirmed") => sums.refunded += entry.amount,
            ("dispute", state) => {
                sums.disputes += 1;
                sums.lost += i64::from(state == "lost");
                sums.open += i64::from(state == "open");
                continue;
            }
            _ => continue,
        }
        sums.currencies.insert(entry.currency.clone());
    }
    all
}

fn sum_reports(sales: &BTreeSet<String>, ours: &BTreeMap<String, Sums>, reports: &[Report]) -> BTreeMap<String, Sums> {
    let movements = || reports.iter().flat_map(|report| &report.movements);
    let is_ours = |order_no: &str| order_no.split_once('.').is_some_and(|(sale, _)| sales.contains(sale));
    let counted: BTreeSet<&String> =
        movements().filter(|it| is_ours(&it.order_no)).map(|it| &it.payment).chain(ours.keys()).collect();
    let mut all: BTreeMap<String, Sums> = BTreeMap::new();
    for movement in movements().filter(|it| counted.contains(&it.payment)) {
        let sums = all.entry(movement.payment.clone()).or_default();
        if !movement.order_no.is_empty() {
            sums.order_no.clone_from(&movement.order_no);
        }
        match movement.kind {
            Kind::Payment => sums.paid += movement.amount,
            Kind::Refund => sums.refunded += movement.amount,
            Kind::Dispute => {
                sums.disputes += i64::from(movement.amount > 0);
                sums.disputed += movement.amount;
                continue;
            }
        }
        sums.currencies.insert(movement.currency.clone());
    }
    all
}

fn compare(ours: &Sums, theirs: &Sums) -> Vec<String> {
    let mut found = Vec::new();
    if ours.currencies != theirs.currencies {
        found.push(format!("{} in the books, {} in the report", ours.money(ours.paid), theirs.money(theirs.paid)));
        return found;
    }
    for (what, ours_is, theirs_is) in [("paid", ours.paid, theirs.paid), ("refunded", ours.refunded, theirs.refunded)] {
        if ours_is != theirs_is {
            let (ours_is, theirs_is) = (ours.money(ours_is), theirs.money(theirs_is));
            found.push(format!("{what} {ours_is} in the books, {theirs_is} in the report"));
        }
    }
    // An inquiry takes no money.
    if theirs.disputes > ours.disputes {
        found.push("the report has a dispute that the books do not".to_owned());
    }
    if ours.lost > 0 && theirs.disputed <= 0 {
        found.push("the books have a lost dispute that the report does not".to_owned());
    } else if ours.lost == 0 && ours.open == 0 && theirs.disputes == ours.disputes && theirs.disputed != 0 {
        found.push("no dispute of the books was lost, and its money is not back in the report".to_owned());
    }
    found
}
