//! What was done about a callback: the words in `callbacks.outcome`.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

/// Effect of a callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum CallbackEffect {
    /// It changed something.
    Changed,
    /// Nothing to do: it was applied before, or its type changes nothing.
    NoChange,
    /// Parked for an operator: wrong amount, currency or provider, unknown order or payment, a confirmed refund that failed
    /// later, or a refund beside it.
    Parked,
}

macro_rules! outcomes {
    ($($(#[$doc:meta])* $name:ident $text:literal $effect:ident;)*) => {
        domain::words! {
            /// What was done about a callback.
            #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
            pub enum CallbackOutcome {
                $($(#[$doc])* $name = $text,)*
            }
        }

        impl CallbackOutcome {
            /// Its effect.
            #[must_use]
            pub fn effect(self) -> CallbackEffect {
                match self {
                    $(Self::$name => CallbackEffect::$effect,)*
                }
            }
        }
    };
}

outcomes! {
    /// It was recorded, and not applied completely yet.
    #[default]
    Unprocessed "" NoChange;
    /// Its order was paid.
    Paid "paid" Changed;
    /// Its order was paid after its release: the units were free (E5).
    PaidLate "paid_late" Changed;
    /// It named the payment of an order whose payment id was lost with a ledger.
    PaymentNamed "payment_named" Changed;
    /// It paid a released order whose units were not free: its refund was started (E5).
    RefundStarted "refund_started" Changed;
    /// Its order was paid with another payment: a refund of this one was recorded (I6).
    OverpaymentRefunded "overpayment_refunded" Changed;
    /// It confirmed the refund of an overpayment.
    OverpaymentBack "overpayment_back" Changed;
    /// It confirmed the refund of its order.
    Refunded "refunded" Changed;
    /// It reported the refund of a part of its payment: the rest is refunded when the order is.
    PartRefunded "part_refunded" Changed;
    /// It reported a failed refund, which is sent again.
    RefundToRetry "refund_to_retry" Changed;
    /// It reported a session that ended.
    SessionEnded "session_ended" Changed;
    /// Nothing to do.
    NoChange "no_change" NoChange;
    /// Its payment is being refunded as an overpayment.
    GivenBack "given_back" NoChange;
    /// The ledger does not have its order (E2).
    UnknownOrder "unknown_order" Parked;
    /// Its amount or currency is not the order's, or not the refund's (E2).
    WrongAmount "wrong_amount" Parked;
    /// Its order was paid with another payment, and it names none that could be refunded.
    PaidTwice "paid_twice" Parked;
    /// It names no payment, or none that the ledger knows (E2).
    UnknownPayment "unknown_payment" Parked;
    /// It reported that a refund failed, which the provider had confirmed (E4).
    RefundBounced "refund_bounced" Parked;
    /// It reported a refund beside another one that was made, or one that names none after a failure: the money may be back
    /// twice, or not at all (I6).
    UnclearRefund "unclear_refund" Parked;
    /// Another provider than the callback's opened the order's payment session (E2).
    WrongProvider "wrong_provider" Parked;
    /// A later build, beside which this one runs, processed it, and may hold it.
    Unknown "unknown" Parked;
    /// An operator refunds its payment. A trigger records the refund in the same statement, and leaves the callback
    /// unchanged if its order was paid with this payment, or may have been.
    RefundedByOperator "refunded_by_operator" Changed;
    /// An operator resolved it elsewhere.
    DismissedByOperator "dismissed_by_operator" Changed;
}

impl CallbackOutcome {
    /// Whether a refund with this outcome is parked because the provider reported it before its payment.
    #[must_use]
    pub fn is_early(self) -> bool {
        matches!(self, Self::UnknownOrder | Self::UnknownPayment)
    }
}

impl JsonSchema for CallbackOutcome {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CallbackOutcome".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words: Vec<&str> = Self::ALL.iter().map(|outcome| outcome.as_str()).collect();
        json_schema!({
            "description": "What was done about a callback; empty until it is processed.",
            "type": "string",
            "enum": words,
        })
    }
}

impl Serialize for CallbackOutcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// The outcomes that hold a callback for an operator, as a list in SQL.
pub(crate) fn parked_outcomes() -> String {
    sql_list(|outcome| outcome.effect() == CallbackEffect::Parked && outcome != CallbackOutcome::Unknown)
}

/// The outcomes of [`CallbackOutcome::is_early`], as a list in SQL.
pub(crate) fn early_outcomes() -> String {
    sql_list(CallbackOutcome::is_early)
}

/// The outcomes that hold no callback, as a list in SQL; that of an unprocessed one is the first. Callbacks with another
/// outcome are parked, also those with an outcome of a later build. The index `callbacks_parked` of the schema has the same
/// list: SQLite uses it only for this text.
pub fn unparked_outcomes() -> String {
    sql_list(|outcome| outcome.effect() != CallbackEffect::Parked)
}

fn sql_list(contains: impl Fn(CallbackOutcome) -> bool) -> String {
    let outcomes = CallbackOutcome::ALL.iter().filter(|outcome| contains(**outcome));
    let words: Vec<_> = outcomes.map(|outcome| format!("'{}'", outcome.as_str())).collect();
    format!("({})", words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMAS: [&str; 2] = [
        include_str!("../../../stores/sql/sqlite/0001_ledger.sql"),
        include_str!("../../../stores/sql/postgres/0001_ledger.sql"),
    ];

    #[test]
    fn the_schemas_name_the_outcomes_of_the_enum() {
        let [sqlite, postgres] = SCHEMAS.map(|schema| {
            let one_line = schema.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(one_line.contains(&format!("WHERE outcome NOT IN {};", unparked_outcomes())));
            let effects = schema.split("outcome = '").skip(1).filter_map(|rest| rest.split('\'').next());
            assert!(effects.into_iter().all(|word| CallbackOutcome::parse(word).is_some()));
            schema.split("VIEW").nth(1).and_then(|rest| rest.split_once("SELECT")?.1.split(';').next()).expect("a view")
        });
        assert_eq!(sqlite, postgres, "one rule in both ledgers");
        for decision in sqlite.split("THEN '").skip(1) {
            let word = decision.split('\'').next().expect("a word");
            assert!(CallbackOutcome::parse(word).is_some(), "{word}");
        }
    }
}
