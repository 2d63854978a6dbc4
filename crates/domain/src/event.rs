//! Events for the shop (E7), as signed Standard Webhooks messages.

use serde_json::{Value, json};

use crate::{
    ids::{ActivityId, OrderNo},
    order::OrderStatus,
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

crate::words! {
    /// What happened to an activity, or to a SKU of it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ActivityChange {
        /// It was published or resumed, or its start was moved: it is not open, or the next event says that it is.
        Published = "published",
        /// It is open.
        Opened = "opened",
        /// It was paused.
        Paused = "paused",
        /// It has ended, or was closed.
        Ended = "ended",
        /// A SKU has nothing left.
        SoldOut = "sold_out",
        /// A SKU that was sold out has something left.
        Back = "back",
        /// Redis had lost orders: a rebuild began (G16).
        Restored = "restored",
    }
}

impl ActivityChange {
    /// Whether it happened to a SKU.
    #[must_use]
    pub fn is_of_sku(self) -> bool {
        matches!(self, Self::SoldOut | Self::Back)
    }

    /// The type of its events.
    #[must_use]
    pub fn event_type(self) -> String {
        format!("{}.{}", if self.is_of_sku() { "sku" } else { "activity" }, self.as_str())
    }
}

/// What the events of a part of a refund are called.
pub const PARTIALLY_REFUNDED: &str = "partially_refunded";

/// The type of the events with which operators test the endpoint.
pub const TEST: &str = "test";

/// The types of all events, such as `order.paid`.
#[must_use]
pub fn event_types() -> Vec<String> {
    let statuses = OrderStatus::ALL.into_iter().filter(|status| status.has_event());
    let of_orders = statuses.map(|status| format!("order.{status}")).chain([format!("order.{PARTIALLY_REFUNDED}")]);
    of_orders.chain(ActivityChange::ALL.map(ActivityChange::event_type)).chain([TEST.to_owned()]).collect()
}

/// Identifies an event: the ledger has at most one with this key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKey {
    /// An order reached a status.
    Order(OrderNo, OrderStatus),
    /// A part of an order's payment is given back, at this step.
    Part(OrderNo, i64),
    /// An operator tests the endpoint, at this time.
    Test(i64),
    /// An activity or a SKU of it changed, with this number among the activity's events.
    Activity(ActivityId, ActivityChange, i64),
}

impl EventKey {
    /// Parses columns of the ledger. An order number contains a full stop, an activity's id does not. A test has no subject.
    #[must_use]
    pub fn parse(subject: &str, step: i64, status: &str) -> Option<Self> {
        if (subject, status) == ("", TEST) {
            return Some(Self::Test(step));
        }
        match ActivityId::parse(subject) {
            Ok(activity) => Some(Self::Activity(activity, ActivityChange::parse(status)?, step)),
            Err(_) if status == PARTIALLY_REFUNDED => Some(Self::Part(OrderNo::parse(subject).ok()?, step)),
            Err(_) => Some(Self::Order(OrderNo::parse(subject).ok()?, OrderStatus::parse(status)?)),
        }
    }

    /// The columns `subject` and `step`: what the event is about, and its position among the events about that.
    #[must_use]
    pub fn columns(&self) -> (String, i64) {
        match self {
            Self::Order(order_no, status) => (order_no.to_string(), step(*status)),
            Self::Part(order_no, step) => (order_no.to_string(), *step),
            Self::Activity(activity, _, number) => (activity.to_string(), *number),
            Self::Test(time) => (String::new(), *time),
        }
    }

    /// The event's id. It contains no full stop, which separates the parts of the signed text.
    #[must_use]
    pub fn id(&self) -> String {
        match self {
            Self::Order(order_no, status) => format!("evt_{}_{status}", order_no.ulid()),
            Self::Part(order_no, step) => format!("evt_{}_{PARTIALLY_REFUNDED}_{step}", order_no.ulid()),
            Self::Activity(activity, change, number) => format!("evt_{activity}_{}_{number}", change.as_str()),
            // An underscore is in no activity's id.
            Self::Test(time) => format!("evt__{TEST}_{time}"),
        }
    }

    /// The activity; `None` for a test.
    #[must_use]
    pub fn activity(&self) -> Option<&ActivityId> {
        match self {
            Self::Order(order_no, _) | Self::Part(order_no, _) => Some(order_no.activity()),
            Self::Activity(activity, ..) => Some(activity),
            Self::Test(_) => None,
        }
    }

    /// The order; `None` if it is about an activity, or a test.
    #[must_use]
    pub fn order_no(&self) -> Option<&OrderNo> {
        match self {
            Self::Order(order_no, _) | Self::Part(order_no, _) => Some(order_no),
            Self::Activity(..) | Self::Test(_) => None,
        }
    }

    /// The event's type, such as `order.paid`.
    #[must_use]
    pub fn event_type(&self) -> String {
        match self {
            Self::Order(_, status) => format!("order.{status}"),
            Self::Part(..) => format!("order.{PARTIALLY_REFUNDED}"),
            Self::Activity(_, change, _) => change.event_type(),
            Self::Test(_) => TEST.to_owned(),
        }
    }
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its key.
    pub key: EventKey,
    /// The order as it was then, or the activity; nothing for a test.
    pub data: Value,
    /// When it happened.
    pub happened_at: Millis,
}

impl Event {
    /// The message to send at `now`, signed with each of `secrets` (separated by spaces; two during a rotation).
    ///
    /// `None` if there is no secret or one of them is malformed.
    #[must_use]
    pub fn message(&self, secrets: &str, now: Millis) -> Option<SignedMessage> {
        let kind = self.key.event_type();
        let body = json!({ "type": kind, "timestamp": self.happened_at, "data": self.data }).to_string();
        sign(secrets, self.key.id(), now, body)
    }
}

/// The position of a status in an order's life. Events of an order are sent in this order; an order has at most one
/// event for each step.
fn step(status: OrderStatus) -> i64 {
    match status {
        OrderStatus::Waiting | OrderStatus::Queued | OrderStatus::Failed => 0,
        OrderStatus::PendingPayment => 1,
        OrderStatus::Cancelled | OrderStatus::Expired => 2,
        OrderStatus::Paid => 3,
        // After the parts of its refund.
        OrderStatus::Refunding => 1_000_000,
        OrderStatus::Refunded => 1_000_001,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_transition_increases_the_step() {
        for from in OrderStatus::ALL {
            for to in OrderStatus::ALL.into_iter().filter(|to| from.can_become(*to) && *to != OrderStatus::Failed) {
                assert!(step(to) > step(from), "{from:?} → {to:?}");
            }
        }
    }

    #[test]
    fn the_columns_of_an_event_say_whether_it_is_about_an_order_or_an_activity() {
        const ULID: &str = "01JZ8Q4M7T3V9X2C5B6N0K1R8W";
        let order_no = format!("demo.{ULID}");
        for (subject, step, status, id, event_type) in [
            (order_no.as_str(), 3, "paid", format!("evt_{ULID}_paid"), "order.paid"),
            (
                order_no.as_str(),
                4,
                "partially_refunded",
                format!("evt_{ULID}_partially_refunded_4"),
                "order.partially_refunded",
            ),
            ("demo", 3, "restored", "evt_demo_restored_3".to_owned(), "activity.restored"),
            ("demo", 4, "sold_out", "evt_demo_sold_out_4".to_owned(), "sku.sold_out"),
            ("", 5, "test", "evt__test_5".to_owned(), "test"),
        ] {
            let key = EventKey::parse(subject, step, status).expect("a key");
            assert_eq!((key.id(), key.event_type()), (id, event_type.to_owned()));
            assert_eq!(key.columns(), (subject.to_owned(), step));
        }
        assert_eq!(EventKey::parse("demo", 3, "paid"), None);
        assert_eq!(EventKey::parse(&order_no, 3, "restored"), None);
    }

    #[test]
    fn the_message_of_an_activity_has_its_type_and_data() {
        let key = EventKey::Activity(ActivityId::parse("demo").expect("an id"), ActivityChange::Restored, 3);
        let event = Event { key, data: json!({ "activity": "demo", "epoch": 3 }), happened_at: Millis(0) };
        let message = event.message("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", Millis(5_000)).expect("a secret");
        assert_eq!((message.id.as_str(), message.timestamp.as_str()), ("evt_demo_restored_3", "5"));
        let expected = json!({
            "type": "activity.restored",
            "timestamp": Millis(0).to_string(),
            "data": { "activity": "demo", "epoch": 3 },
        });
        assert_eq!(message.body, expected.to_string());
    }
}
