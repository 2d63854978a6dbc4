//! Dead letters: looked at, and put back into the queue (D4).

use serde_json::json;
use stampede_domain::{
    ids::OrderNo,
    problem::{Code, Problem},
};
use stampede_platform::{
    http::{Answer, Failure, not_found},
    ledger::SpinLedger,
    redis::SpinRedis,
};
use stampede_sale::dead::{self, Replayed};

/// The newest ones.
pub async fn list() -> Result<Answer, Failure> {
    Ok(Answer::json(200, &dead::list(&SpinLedger::open().await).await?))
}

/// `POST …/:order_no/replay`.
pub async fn replay(order_no: &str) -> Result<Answer, Failure> {
    let unknown = || not_found("There is no such dead letter, or it cannot be read.");
    let order_no = OrderNo::parse(order_no).map_err(|_| unknown())?;
    let now = SpinRedis.now().await?;
    match dead::replay(&SpinRedis, &SpinLedger::open().await, &order_no, now).await? {
        Replayed::Queued => Ok(Answer::json(202, &json!({ "order_no": order_no, "status": "queued" }))),
        Replayed::Refused(word) => {
            let detail = format!("The order cannot be put back now: {word}.");
            Err(Problem::new(Code::StateConflict, detail).into())
        }
        Replayed::Unknown => Err(unknown()),
    }
}
