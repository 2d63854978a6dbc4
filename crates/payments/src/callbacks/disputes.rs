//! Disputes that providers report: recorded with their order, which they do not change (G21).

use domain::{ids::OrderNo, webhook::Dispute};
use stores::ports::{Sql, StoreError};

use crate::ledger::disputes;

/// What became of a dispute that was reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisputeReceipt {
    /// It is recorded.
    Recorded,
    /// Its signer is not configured and has no such payment.
    NotOfItsOrders,
    /// It is about a payment of another app with the same account, or, if it names no order, about one that is not reported
    /// yet: it is recorded then, too.
    Foreign,
}

/// Receives a verified report of a dispute; `is_configured` and `is_ours` as for [`super::receive`].
///
/// # Errors
/// [`StoreError`] of the ledger: the provider should deliver it again.
pub async fn receive<S: Sql>(
    sql: &S,
    reported: &Dispute,
    is_configured: bool,
    is_ours: impl Fn(&OrderNo) -> bool,
) -> Result<DisputeReceipt, StoreError> {
    let found = disputes::find_order(sql, reported).await?;
    let is_ours = OrderNo::parse(&reported.order_no).is_ok_and(|order_no| is_ours(&order_no));
    let receipt = match found {
        Some(_) => DisputeReceipt::Recorded,
        None if !is_configured => return Ok(DisputeReceipt::NotOfItsOrders),
        None if is_ours => DisputeReceipt::Recorded,
        None => DisputeReceipt::Foreign,
    };
    if receipt == DisputeReceipt::Recorded || reported.order_no.is_empty() {
        let order_no = found.unwrap_or_else(|| reported.order_no.clone());
        disputes::record(sql, &Dispute { order_no, ..reported.clone() }).await?;
    }
    Ok(receipt)
}
