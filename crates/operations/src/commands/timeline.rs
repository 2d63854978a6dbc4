//! The timeline of an order: what happened when, from what the ledger keeps.

use domain::{
    order::OrderStatus::{self, Cancelled, Expired, PendingPayment, Refunded},
    time::Millis,
    webhook::{Dispute, DisputeStatus},
};
use orders::ledger::{events::EventRecord, order_rows::OrderRow};
use payments::{
    callbacks::CallbackOutcome,
    ledger::{
        callback_rows::{Callback, PAID_TOO_LATE},
        refunds::{Refund, RefundKind},
    },
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::ledger::{operator_changes::OperatorChange, order_times::OrderTimes};

/// What happened to an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Happening {
    /// Its units were reserved.
    Created,
    /// It was written to the ledger.
    PendingPayment,
    /// Its latest payment session was opened.
    SessionOpened,
    /// The provider reported something: `type` and `outcome`.
    Callback,
    /// It was cancelled.
    Cancelled,
    /// Its time to pay was over.
    Expired,
    /// It was paid.
    Paid,
    /// Its refund was requested, or reported by the provider.
    RefundRequested,
    /// The provider confirmed its refund.
    Refunded,
    /// Its buyer disputed a payment at the provider; `reason` is the provider's.
    Disputed,
    /// The dispute ended; `reason` is how.
    DisputeEnded,
    /// An operator did something: `action`, `by` whom.
    Operator,
}

/// An entry of a timeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TimelineEntry {
    /// When; null if the ledger no longer knows.
    pub at: Option<Millis>,
    /// What.
    pub what: Happening,
    /// Why: the order's reason, or what an operator wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub reason: Option<String>,
    /// Of a callback: its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub callback: Option<String>,
    /// Of a callback: its type.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub r#type: Option<String>,
    /// Of a callback: what was done about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "CallbackOutcome")]
    pub outcome: Option<CallbackOutcome>,
    /// Of a callback or a refund, also by an operator: the amount.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub amount: Option<i64>,
    /// Of an operator: what was called, method and route.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub action: Option<String>,
    /// Of an operator: who.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub by: Option<String>,
}

impl TimelineEntry {
    fn new(at: Option<Millis>, what: Happening) -> Self {
        let (reason, callback, r#type, outcome) = (None, None, None, None);
        Self { at, what, reason, callback, r#type, outcome, amount: None, action: None, by: None }
    }

    fn because(self, reason: Option<&str>) -> Self {
        let reason = reason.filter(|reason| !reason.is_empty()).map(str::to_owned);
        Self { reason, ..self }
    }
}

/// Returns what happened to an order, oldest first. `changes` are those of operators, of the order and of its callbacks.
#[must_use]
pub fn timeline(
    row: &OrderRow,
    times: &OrderTimes,
    callbacks: &[Callback],
    refunds: &[Refund],
    disputes: &[Dispute],
    events: &[EventRecord],
    changes: &[OperatorChange],
) -> Vec<TimelineEntry> {
    let entry = TimelineEntry::new;
    let (order, reason) = (&row.order, row.order.reason.as_deref());
    // Events are kept for days only.
    let event_at = |status: OrderStatus| {
        let kind = format!("order.{status}");
        events.iter().find(|event| event.r#type == kind).map(|event| event.happened_at)
    };
    let mut entries = vec![entry(Some(order.created_at), Happening::Created)];
    // An order that only a late payment brought into the ledger never waited there.
    entries.extend(times.written_at.map(|at| entry(Some(at), Happening::PendingPayment)));
    entries.extend(times.session_opened_at.map(|at| entry(Some(at), Happening::SessionOpened)));
    let was_late = reason == Some(PAID_TOO_LATE) || callbacks.iter().any(|it| it.outcome == CallbackOutcome::PaidLate);
    entries.extend(match order.status {
        Cancelled => Some(entry(Some(row.updated_at), Happening::Cancelled).because(reason)),
        Expired => Some(entry(Some(row.updated_at), Happening::Expired).because(reason)),
        PendingPayment => None,
        _ if was_late && times.was_cancelled => Some(entry(event_at(Cancelled), Happening::Cancelled)),
        // The deadline, if no event says when the sweeper saw it.
        _ if was_late => Some(entry(event_at(Expired).or(order.pay_by), Happening::Expired)),
        _ => None,
    });
    let of_callback = |callback: &Callback| TimelineEntry {
        callback: Some(callback.id.clone()),
        r#type: Some(callback.kind.clone()),
        outcome: Some(callback.outcome),
        amount: Some(callback.money.amount),
        ..entry(Some(callback.received_at), Happening::Callback)
    };
    entries.extend(callbacks.iter().map(of_callback));
    entries.extend(order.paid_at.map(|at| entry(Some(at), Happening::Paid)));
    let refund = refunds.iter().find(|refund| refund.kind == RefundKind::Orders);
    entries.extend(refund.map(|refund| TimelineEntry {
        amount: Some(refund.rest().amount),
        ..entry(times.refund_requested_at, Happening::RefundRequested).because(reason)
    }));
    if order.status == Refunded {
        entries.push(entry(Some(row.updated_at), Happening::Refunded));
    }
    for dispute in disputes {
        let amount = Some(dispute.money.amount);
        let disputed = entry(Some(dispute.opened_at), Happening::Disputed).because(Some(&dispute.reason));
        entries.push(TimelineEntry { amount, ..disputed });
        if dispute.status != DisputeStatus::Open {
            let ended = entry(Some(dispute.changed_at), Happening::DisputeEnded);
            entries.push(ended.because(Some(dispute.status.as_str())));
        }
    }
    entries.extend(changes.iter().map(|change| {
        let after = serde_json::from_str::<Value>(&change.after).unwrap_or_default();
        TimelineEntry {
            action: Some(change.action.clone()),
            by: Some(change.operator.clone()),
            amount: after["amount"].as_i64(),
            ..entry(Some(change.changed_at), Happening::Operator).because(after["reason"].as_str())
        }
    }));
    // An entry without a time stays after the one before it.
    let mut last = Millis(0);
    let mut dated: Vec<_> = entries
        .into_iter()
        .map(|entry| {
            last = entry.at.unwrap_or(last);
            (last, entry)
        })
        .collect();
    dated.sort_by_key(|(at, _)| *at);
    dated.into_iter().map(|(_, entry)| entry).collect()
}
