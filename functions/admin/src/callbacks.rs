//! Payment callbacks that wait for an operator: unknown orders, wrong amounts, refunds that came back (E2, E4).

use domain::problem::{Code, Problem};
use platform::{
    client_address,
    http::{Answer, Failure, not_found},
    ledger::SpinLedger,
    redis::SpinRedis,
};
use serde_json::json;
use workflows::{
    ledger::{payments, refunds},
    payments::callbacks::{
        Applied,
        held::{self, Resolved},
    },
};

/// `GET …/callbacks`: the held ones, newest first.
pub async fn list() -> Result<Answer, Failure> {
    Ok(Answer::json(200, &payments::held(&SpinLedger::open().await).await?))
}

/// `GET …/refunds`: those that no provider has confirmed, the most often tried first.
pub async fn refunds() -> Result<Answer, Failure> {
    Ok(Answer::json(200, &refunds::open(&SpinLedger::open().await).await?))
}

/// `POST …/callbacks/:id/replay`, `/refund` or `/dismiss`.
pub async fn resolve(id: &str, how: &str) -> Result<Answer, Failure> {
    let (id, now, ledger) = (client_address::decoded(id), SpinRedis.now().await?, SpinLedger::open().await);
    let resolved = match how {
        "replay" => held::replay(&SpinRedis, &ledger, &id, now).await?,
        "refund" => held::refund(&ledger, &id).await?,
        _ => held::dismiss(&ledger, &id).await?,
    };
    let applied = match resolved {
        Resolved::Done(applied) => applied,
        Resolved::NotHeld => return Err(not_found("No such callback waits for an operator.")),
        Resolved::Paid => {
            let detail = "Its payment has paid its order since: refund the order, or dismiss the callback.";
            return Err(Problem::new(Code::StateConflict, detail).into());
        }
        Resolved::NoPayment => {
            let detail = "The callback names no payment: there is nothing to give back. Dismiss it.";
            return Err(Problem::new(Code::StateConflict, detail).into());
        }
    };
    let outcome = match applied {
        Applied::Changed => "changed",
        Applied::Duplicate => "no_change",
        Applied::Held => "held",
    };
    Ok(Answer::json(200, &json!({ "id": id, "outcome": outcome })))
}
