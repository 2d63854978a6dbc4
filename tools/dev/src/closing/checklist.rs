//! What must be over before a sale is closed, each with the command that shows it.

use std::fmt;

use anyhow::{Context, Result};
use serde_json::Value;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::Operator;

/// Whether an item of the list stops the closing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Done,
    Open,
    Note,
}

/// An item of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// What.
    pub what: String,
    state: State,
    /// What is open, and the command that shows it.
    detail: String,
}

impl Item {
    /// Whether it stops the closing.
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// It holds.
    pub fn done(what: String) -> Self {
        Self { what, state: State::Done, detail: String::new() }
    }

    /// Something to know.
    pub fn note(what: String) -> Self {
        Self { what, state: State::Note, detail: String::new() }
    }

    /// It does not hold: `found` says why, `command` shows it.
    pub fn open(what: &str, found: impl fmt::Display, command: impl fmt::Display) -> Self {
        Self { what: what.to_owned(), state: State::Open, detail: format!(": no, {found}\n      {command}") }
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Done => "done",
            State::Open => "open",
            State::Note => "note",
        };
        write!(f, "{state}  {}{}", self.what, self.detail)
    }
}

/// Checks a sale with what the app tells its operators.
pub fn check(operator: &Operator, sale: &str) -> Vec<Item> {
    let of_sale = format!("/activities/{sale}");
    let mut items = vec![
        one(operator, "the sale has ended", &of_sale, |sale| {
            let ends_at = OffsetDateTime::parse(sale["ends_at"].as_str().unwrap_or_default(), &Rfc3339);
            let has_ended = sale["state"] == "closed" || ends_at.is_ok_and(|end| end <= OffsetDateTime::now_utc());
            if has_ended { None } else { Some(format!("it ends at {}", sale["ends_at"])) }
        }),
        one(operator, "nothing is queued or held", &format!("{of_sale}/stats"), |stats| {
            let held = stats["skus"].as_array().into_iter().flatten().filter_map(|sku| sku["held"].as_i64());
            let counts = [
                ("queued", stats["queue"].as_i64().unwrap_or_default()),
                ("units held", held.sum()),
                ("unpaid", stats["orders"]["pending_payment"].as_i64().unwrap_or_default()),
                ("being refunded", stats["orders"]["refunding"].as_i64().unwrap_or_default()),
            ];
            let found = counts.iter().filter(|(_, count)| *count != 0).map(|(what, count)| format!("{count} {what}"));
            Some(found.collect::<Vec<_>>().join(", ")).filter(|found| !found.is_empty())
        }),
        one(operator, "the audit is ok", &format!("{of_sale}/audit"), |audit| {
            let is_ok = audit["ok"] == true && audit["drift"] == 0;
            if is_ok { None } else { Some(format!("ok {}, drift {}", audit["ok"], audit["drift"])) }
        }),
        many(operator, "no callback is parked", "/callbacks", sale),
        many(operator, "no refund is open", "/refunds", sale),
        many(operator, "no order is a dead letter", "/dead-letters", sale),
    ];
    items.extend(inbox(operator, sale));
    items
}

fn one(operator: &Operator, what: &str, path: &str, find: impl Fn(&Value) -> Option<String>) -> Item {
    let found = read(operator, path).map(|document| find(&document));
    item(what, found, operator, path)
}

fn item(what: &str, found: Result<Option<String>>, operator: &Operator, path: &str) -> Item {
    let command = format!("curl -s -H \"$A\" {}/api/admin{path}", operator.url);
    match found {
        Ok(None) => Item::done(what.to_owned()),
        Ok(Some(found)) => Item::open(what, found, command),
        Err(error) => Item::open(what, format!("{error:#}"), command),
    }
}

fn read(operator: &Operator, path: &str) -> Result<Value> {
    serde_json::from_str(&operator.get(path)?.0).with_context(|| format!("the answer of {path}"))
}

/// Counts what a list has of a sale.
fn many(operator: &Operator, what: &str, path: &str, sale: &str) -> Item {
    // A dead letter that was put back, and did not fail again, needs nobody.
    let is_done =
        |item: &Value| item["replayed_at"].as_str() >= item["died_at"].as_str() && item["replayed_at"].is_string();
    let is_of_sale = |item: &&Value| {
        !is_done(item) && item["order_no"].as_str().is_some_and(|no| no.split('.').next() == Some(sale))
    };
    let count = || -> Result<Option<String>> {
        let (mut count, mut before) = (0, String::new());
        loop {
            let page = read(operator, &format!("{path}?before={before}"))?;
            count += page["items"].as_array().into_iter().flatten().filter(is_of_sale).count();
            let Some(next) = page["next"].as_str() else { break };
            before = url::form_urlencoded::byte_serialize(next.as_bytes()).collect();
        }
        Ok((count > 0).then(|| count.to_string()))
    };
    item(what, count(), operator, path)
}

/// What else of the sale needs a person. An open dispute takes months: it is a note.
fn inbox(operator: &Operator, sale: &str) -> Vec<Item> {
    const LISTED: [&str; 4] = ["parked_callback", "failed_refund", "overpayment", "dead_letter"];
    let document = match read(operator, "/inbox") {
        Ok(document) => document,
        Err(error) => return vec![item("nothing else needs you", Err(error), operator, "/inbox")],
    };
    let of_sale = document["items"].as_array().into_iter().flatten().filter(|item| item["activity"] == sale);
    let (disputes, others): (Vec<_>, Vec<_>) = of_sale
        .filter(|item| !LISTED.iter().any(|kind| item["kind"] == *kind))
        .partition(|item| item["kind"] == "open_dispute");
    let kinds: Vec<_> = others.iter().map(|item| format!("{} {}", item["count"], item["kind"])).collect();
    let found = (!kinds.is_empty()).then(|| kinds.join(", "));
    let disputed: i64 = disputes.iter().filter_map(|item| item["count"].as_i64()).sum();
    let mut items = vec![item("nothing else needs you", Ok(found), operator, "/inbox")];
    if disputed > 0 {
        items.push(Item::note(format!("open disputes: {disputed}; answer them at the provider")));
    }
    items
}
