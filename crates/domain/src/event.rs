//! Order events for the shop (E7), as signed Standard Webhooks messages.

use serde_json::json;

use crate::{
    order::{Order, OrderStatus},
    time::Millis,
    webhook::{SignedMessage, sign},
};

/// Delay before the next attempt after each failed attempt, in milliseconds: the retry schedule of the Standard
/// Webhooks specification. The first attempt is immediate; after the tenth failed attempt the event is marked failed.
const RETRY_DELAYS_MS: [i64; 9] = {
    const SECOND: i64 = 1_000;
    const MINUTE: i64 = 60 * SECOND;
    const HOUR: i64 = 60 * MINUTE;
    [5 * SECOND, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR]
};

/// Delay in milliseconds after `attempts` failed attempts (1 or more). `None` if no attempt is left.
#[must_use]
pub fn retry_delay_ms(attempts: i64) -> Option<i64> {
    usize::try_from(attempts - 1).ok().and_then(|index| RETRY_DELAYS_MS.get(index).copied())
}

/// A status that an order reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The order at that moment.
    pub order: Order,
    /// When the order reached the status.
    pub happened_at: Millis,
}

impl Event {
    /// The event's id: unique, because the ledger keeps at most one event for each status of an order.
    ///
    /// It contains no full stop, which separates the parts of the signed text.
    #[must_use]
    pub fn id(&self) -> String {
        format!("evt_{}_{}", self.order.order_no.ulid(), self.order.status.as_str())
    }

    /// The event's type, such as `order.paid`.
    #[must_use]
    pub fn event_type(&self) -> String {
        format!("order.{}", self.order.status.as_str())
    }

    /// The message to send at `now`, signed with each of `secrets` (separated by spaces; two during a rotation).
    ///
    /// `None` if there is no secret or one of them is malformed.
    #[must_use]
    pub fn message(&self, secrets: &str, now: Millis) -> Option<SignedMessage> {
        let body = json!({ "type": self.event_type(), "timestamp": self.happened_at, "data": self.order }).to_string();
        sign(secrets, self.id(), now, body)
    }
}

/// The position of a status in an order's life. Events of an order are sent in this order; an order has at most one
/// event for each step.
#[must_use]
pub fn step(status: OrderStatus) -> i64 {
    match status {
        OrderStatus::Queued | OrderStatus::Failed => 0,
        OrderStatus::PendingPayment => 1,
        OrderStatus::Cancelled | OrderStatus::Expired => 2,
        OrderStatus::Paid => 3,
        OrderStatus::Refunding => 4,
        OrderStatus::Refunded => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ids::{OrderNo, SkuId, UserId},
        money::Money,
    };

    const SECRETS: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    fn event(status: OrderStatus) -> Event {
        let order = Order {
            order_no: OrderNo::parse("demo.01ARZ3NDEKTSV4RRFFQ69G5FAV").expect("an order number"),
            user: UserId::parse("ada").expect("a user"),
            status,
            sku: SkuId::parse("phone").expect("a SKU"),
            quantity: 1,
            money: Money::new(100, "EUR"),
            created_at: Millis(0),
            pay_by: Some(Millis(300_000)),
            paid_at: None,
            reason: None,
            checkout_url: None,
            declined_at: None,
            ahead: 0,
            estimated_wait_ms: 0,
        };
        Event { order, happened_at: Millis(1_000) }
    }

    #[test]
    fn attempts_share_id_and_body_but_not_the_timestamp() {
        let event = event(OrderStatus::Paid);
        let (first, again) = (event.message(SECRETS, Millis(5_000)), event.message(SECRETS, Millis(10_000)));
        let (first, again) = (first.expect("signed"), again.expect("signed"));
        assert_eq!((&first.id, &first.body), (&again.id, &again.body));
        assert_eq!((first.timestamp.as_str(), again.timestamp.as_str()), ("5", "10"));
        assert_ne!(first.signature, again.signature);
        assert_eq!(first.signature.split(' ').count(), 2, "one for each secret");
        assert!(!first.id.contains('.'));
        assert!(first.body.contains(r#""type":"order.paid""#), "{}", first.body);
    }

    #[test]
    fn nothing_is_signed_with_an_invalid_secret() {
        for secrets in ["", " ", "whsec_!", "plain"] {
            assert_eq!(event(OrderStatus::Paid).message(secrets, Millis(0)), None, "{secrets:?}");
        }
    }

    #[test]
    fn the_retry_schedule_is_that_of_the_specification() {
        let seconds: Vec<_> = (1..=10).map(|n| retry_delay_ms(n).map(|ms| ms / 1_000)).collect();
        let hours = |n: i64| Some(n * 3_600);
        let expected =
            [Some(5), Some(300), Some(1_800), hours(2), hours(5), hours(10), hours(14), hours(20), hours(24), None];
        assert_eq!(seconds, expected);
    }

    #[test]
    fn every_transition_increases_the_step() {
        for from in OrderStatus::ALL {
            for to in OrderStatus::ALL.into_iter().filter(|to| from.can_become(*to) && *to != OrderStatus::Failed) {
                assert!(step(to) > step(from), "{from:?} → {to:?}");
            }
        }
    }
}
