//! Presale codes of an activity (B7): made here or uploaded, and exported as CSV. The record of a change has how many they
//! are, and no code.

use std::collections::BTreeMap;

use domain::{
    api::operators::CodesAdded,
    http::{
        body,
        problem::{Code, Problem},
    },
    ids::ActivityId,
    presale::{self as rules, MAX_CODES, MakeCodes, PresaleCode},
};
use platform::{
    http::{ApiError, Request, Response, not_found},
    ledger::SpinLedger,
    random,
};
use sale::ledger::{activities, presale};

use crate::call::Outcome;

/// Handles `GET …/codes`: all codes as a CSV file.
pub async fn list(id: &ActivityId) -> Result<Response, ApiError> {
    let ledger = SpinLedger::open().await;
    require_activity(&ledger, id).await?;
    let file = presale::list_csv(&ledger, id).await?;
    let disposition = format!("attachment; filename=\"{id}-codes.csv\"");
    let response = Response::with_body(200, "text/csv; charset=utf-8", file);
    Ok(response.header("content-disposition", disposition).header("cache-control", "no-store"))
}

/// Handles `POST …/codes`: makes codes. A repeated request makes more.
pub async fn make(request: &Request, id: &ActivityId) -> Result<Outcome, ApiError> {
    let MakeCodes { count, max_users } = body::parse_strict(&request.body, MakeCodes::validate)?;
    let codes = (0..count).map(|_| PresaleCode::generate(random::bits())).collect();
    save(id, BTreeMap::from([(max_users, codes)])).await
}

/// Handles `PUT …/codes`: adds the codes of a CSV file. Those that are there stay as they are.
pub async fn add(request: &Request, id: &ActivityId) -> Result<Outcome, ApiError> {
    let mut codes: BTreeMap<i64, Vec<PresaleCode>> = BTreeMap::new();
    for (code, max_users) in rules::read_csv(&request.body).map_err(Problem::invalid)? {
        codes.entry(max_users).or_default().push(code);
    }
    save(id, codes).await
}

/// Handles `DELETE …/codes/:code`: its users get no further ticket with it.
pub async fn remove(id: &ActivityId, code: &str) -> Result<Outcome, ApiError> {
    let code = PresaleCode::parse(code).ok_or_else(|| not_found("There is no such code."))?;
    match presale::remove(&SpinLedger::open().await, id, &code).await? {
        true => Ok(Outcome::deleted()),
        false => Err(not_found("There is no such code.")),
    }
}

/// Saves codes by the number of their users.
async fn save(id: &ActivityId, codes: BTreeMap<i64, Vec<PresaleCode>>) -> Result<Outcome, ApiError> {
    let ledger = SpinLedger::open_for_batch().await;
    require_activity(&ledger, id).await?;
    let mut added = 0;
    for (max_users, codes) in codes {
        let Some(new) = presale::add(&ledger, id, &codes, max_users).await? else {
            let detail = format!(
                "A sale has at most {MAX_CODES} codes, and this one has {} after this call.",
                presale::count(&ledger, id).await?
            );
            return Err(Problem::new(Code::StateConflict, detail).into());
        };
        added += new;
    }
    let document = CodesAdded { added, codes: presale::count(&ledger, id).await? };
    Ok(Outcome::changed(200, &document).only_if(added > 0))
}

async fn require_activity(ledger: &SpinLedger, id: &ActivityId) -> Result<(), ApiError> {
    let found = activities::load(ledger, id).await?;
    found.map(drop).ok_or_else(|| not_found("There is no such sale."))
}
