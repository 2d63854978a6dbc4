//! Tests of refunds of a part of a payment that a shop makes at its provider, on both ledgers (E4; I6): the app refunds the
//! rest, once.

use std::cell::{Cell, RefCell};

use domain::{
    ids::OrderNo,
    money::Money,
    order::OrderStatus,
    webhook::{PaymentProvider, ProviderCallback},
};
use payments::{
    callbacks::{
        self, CallbackEffect,
        parked::{self, ResolveOutcome},
    },
    ledger::{
        callback_rows,
        refunds::{self, RefundKind},
    },
};
use serde_json::{Value, json};
use stores::http_client::{HttpClient, HttpRequest, HttpResponse, NoResponse};

use crate::{
    crash_points::crash_at_every_call,
    fixture::{LEDGERS, NOW, new_fixture},
    payments::{
        bounced_refunds::{bounced_callback, parked_callbacks, requested_refund},
        refund_case::{Case, on_each_ledger},
        report,
    },
};

/// Stripe, and the bank of a payment service: it has a payment of 100, and refunds no more than what is left of it.
struct Bank {
    left: Cell<i64>,
    /// The amounts of the refunds that the app requested.
    refunds: RefCell<Vec<i64>>,
    status: Cell<&'static str>,
}

impl Bank {
    fn refunded_by_hand(amount: i64) -> Self {
        Self { left: Cell::new(100 - amount), refunds: RefCell::default(), status: Cell::new("pending") }
    }

    fn refund(&self, amount: i64) -> (u16, Value) {
        let refused = |error: Value| (400, json!({"error": error}));
        match self.left.get() {
            0 => refused(json!({"type": "invalid_request_error", "code": "charge_already_refunded"})),
            left if left < amount => refused(json!({"type": "invalid_request_error", "param": "amount"})),
            left => {
                self.left.set(left - amount);
                self.refunds.borrow_mut().push(amount);
                let id = format!("re_{}", self.refunds.borrow().len());
                (200, json!({"id": id, "refund": id, "status": self.status.get(), "amount": amount, "currency": "eur"}))
            }
        }
    }
}

impl HttpClient for &Bank {
    async fn send(&self, HttpRequest { method, url, body, .. }: HttpRequest) -> Result<HttpResponse, NoResponse> {
        let call = serde_json::from_str::<Value>(&body).unwrap_or_default();
        let of_form = body.split('&').find_map(|field| field.strip_prefix("amount=")?.parse().ok());
        let amount = call["data"]["amount"].as_i64().or(of_form);
        let (status, answer) = match amount {
            Some(amount) => self.refund(amount),
            None if url.contains("/v1/payment_intents/") && method == "GET" => {
                let charge =
                    json!({"id": "ch", "amount": 100, "amount_refunded": 100 - self.left.get(), "currency": "eur"});
                (200, json!({"id": "pi", "latest_charge": charge}))
            }
            None => {
                let id = format!("re_{}", self.refunds.borrow().len());
                (200, json!({"id": id, "refund": id, "status": self.status.get()}))
            }
        };
        Ok(HttpResponse { status, headers: Vec::new(), body: answer.to_string().into_bytes() })
    }
}

impl Case<'_, Bank> {
    /// Applies the report of a part that is refunded by hand: Stripe's tells of the charge, with the `sum` of its refunds.
    async fn apply_part(&self, id: &str, amount: i64, sum: i64) -> CallbackEffect {
        match self.provider {
            PaymentProvider::Stripe => self.apply(id, "refund.succeeded", "", sum).await,
            _ => self.apply(id, "refund.succeeded", id, amount).await,
        }
    }

    async fn status(&self) -> Option<OrderStatus> {
        self.fixture.ledger_status(&self.order_no).await
    }
}

#[tokio::test]
async fn after_a_refund_of_a_part_by_hand_the_buyer_gets_the_rest_once() {
    for (ledger, provider) in on_each_ledger() {
        for is_pending in [true, false] {
            let bank = Bank::refunded_by_hand(30);
            bank.status.set(if is_pending { "pending" } else { "succeeded" });
            let case = Case::paid(ledger, provider, &bank).await;
            let name = &case.name;
            for _ in 0..2 {
                case.apply_part("part", 30, 30).await;
            }
            assert_eq!(
                (case.status().await, parked_callbacks(&case.fixture).await),
                (Some(OrderStatus::Paid), vec![]),
                "{name}"
            );
            case.fixture.request_refund(&case.order_no).await.unwrap();
            assert_eq!(case.fixture.open_refunds().await[0].rest(), Money::new(70, "EUR"), "{name}");
            case.send(0).await;
            if is_pending {
                assert_eq!(case.apply("own", "refund.succeeded", "re_1", 70).await, CallbackEffect::Changed, "{name}");
            }
            assert_eq!(case.status().await, Some(OrderStatus::Refunded), "{name}");
            // Stripe reports the charge, too.
            if provider == PaymentProvider::Stripe {
                assert_eq!(case.apply("charge", "refund.succeeded", "", 100).await, CallbackEffect::NoChange, "{name}");
            }
            case.send(1).await;
            assert_eq!(*bank.refunds.borrow(), [70], "{name}");
            assert_eq!(parked_callbacks(&case.fixture).await, [], "{name}");
            assert_eq!(case.fixture.units().await, (5, 0, 0), "{name}");
        }
    }
}

#[tokio::test]
async fn an_overpayment_of_which_a_part_was_refunded_by_hand_is_refunded_once() {
    for (ledger, provider) in on_each_ledger() {
        let (fixture, bank) = (new_fixture(ledger, 5, 1).await, Bank::refunded_by_hand(30));
        let (order_no, payment) = requested_refund(&fixture, RefundKind::Overpayments).await;
        let case = Case { fixture, bank: &bank, provider, order_no, payment, name: ledger.to_owned() };
        assert_eq!(case.apply_part("part", 30, 30).await, CallbackEffect::Changed, "{ledger}");
        case.send(0).await;
        assert_eq!(case.apply("own", "refund.succeeded", "re_1", 70).await, CallbackEffect::Changed, "{ledger}");
        assert_eq!(case.fixture.open_refunds().await, [], "{ledger}");
        assert_eq!((bank.refunds.take(), parked_callbacks(&case.fixture).await), (vec![70], vec![]), "{ledger}");
    }
}

/// Stripe's endpoint does not send the events of charges, or they are late.
#[tokio::test]
async fn stripe_is_asked_what_is_left_of_a_payment_whose_refund_it_refuses() {
    for ledger in LEDGERS {
        for (by_hand, requested) in [(30, vec![70]), (100, vec![])] {
            let bank = Bank::refunded_by_hand(by_hand);
            let case = Case::paid(ledger, PaymentProvider::Stripe, &bank).await;
            case.fixture.request_refund(&case.order_no).await.unwrap();
            case.send(0).await;
            bank.status.set("succeeded");
            case.send(1).await;
            assert_eq!(case.status().await, Some(OrderStatus::Refunded), "{ledger}");
            assert_eq!(bank.refunds.take(), requested, "{ledger}");
        }
    }
}

#[tokio::test]
async fn parts_that_add_up_to_the_payment_refund_the_order() {
    for (ledger, provider) in on_each_ledger() {
        let bank = Bank::refunded_by_hand(100);
        let case = Case::paid(ledger, provider, &bank).await;
        case.apply_part("one", 30, 30).await;
        case.apply_part("two", 20, 50).await;
        case.apply_part("one again", 30, 30).await;
        if provider == PaymentProvider::Webhook {
            // The same refund under another event's id.
            case.apply("two again", "refund.succeeded", "two", 20).await;
            case.apply("one again", "refund.failed", "one again", 30).await;
        }
        assert_eq!(case.status().await, Some(OrderStatus::Paid), "{ledger}");
        case.apply_part("three", 50, 100).await;
        assert_eq!(case.status().await, Some(OrderStatus::Refunded), "{ledger}");
        case.send(1).await;
        assert_eq!(bank.refunds.take(), [0; 0], "{ledger}");
        assert_eq!(case.fixture.units().await, (5, 0, 0), "{ledger}");
        // The bank could not pay it out.
        assert_eq!(case.apply("bounced", "refund.failed", "two", 20).await, CallbackEffect::Parked, "{ledger}");
    }
}

#[tokio::test]
async fn a_part_that_is_reported_before_its_payment_counts() {
    for (ledger, provider) in on_each_ledger() {
        let (fixture, bank) = (new_fixture(ledger, 5, 1).await, Bank::refunded_by_hand(30));
        let order_no = fixture.pending_order(1, "ada", 1).await;
        let payment = format!("pay-{order_no}");
        let case = Case { fixture, bank: &bank, provider, order_no, payment, name: ledger.to_owned() };
        assert_eq!(case.apply_part("part", 30, 30).await, CallbackEffect::Parked, "{ledger}");
        case.fixture.payment_succeeded(&case.order_no, "e").await.unwrap();
        assert_eq!(parked_callbacks(&case.fixture).await, [], "{ledger}");
        case.fixture.request_refund(&case.order_no).await.unwrap();
        assert_eq!(case.fixture.open_refunds().await[0].returned, 30, "{ledger}");
    }
}

/// Providers guarantee no order of their callbacks.
#[tokio::test]
async fn a_part_whose_refund_failed_does_not_count_and_an_operator_hears_of_it() {
    for (ledger, provider) in on_each_ledger() {
        for is_late in [false, true] {
            let bank = Bank::refunded_by_hand(0);
            let case = Case::paid(ledger, provider, &bank).await;
            let fail = async || case.apply("failed", "refund.failed", "part", 30).await;
            if is_late && provider == PaymentProvider::Webhook {
                assert_eq!(fail().await, CallbackEffect::Parked, "{ledger}");
                case.apply_part("part", 30, 30).await;
            } else {
                case.apply_part("part", 30, 30).await;
                assert_eq!(fail().await, CallbackEffect::Parked, "{ledger}");
            }
            let parked = [("failed".to_owned(), "wrong_amount".to_owned())];
            assert_eq!(parked_callbacks(&case.fixture).await, parked, "{ledger}");
            case.fixture.request_refund(&case.order_no).await.unwrap();
            case.send(0).await;
            assert_eq!(bank.refunds.take(), [100], "{ledger}");
        }
    }
}

#[tokio::test]
async fn the_refund_of_the_rest_that_failed_is_sent_again_and_one_that_bounced_by_an_operator() {
    for (ledger, provider) in on_each_ledger() {
        let bank = Bank::refunded_by_hand(30);
        let case = Case::paid(ledger, provider, &bank).await;
        case.apply_part("part", 30, 30).await;
        case.fixture.request_refund(&case.order_no).await.unwrap();
        case.send(0).await;
        for (id, effect) in [("f1", CallbackEffect::Changed), ("f1 again", CallbackEffect::NoChange)] {
            assert_eq!(case.apply(id, "refund.failed", "re_1", 70).await, effect, "{ledger}");
        }
        bank.left.set(70);
        case.send(1).await;
        case.apply("s1", "refund.succeeded", "re_1", 70).await;
        assert_eq!(case.status().await, Some(OrderStatus::Refunding), "{ledger}: one that failed counts");
        case.apply("s2", "refund.succeeded", "re_2", 70).await;
        assert_eq!(case.status().await, Some(OrderStatus::Refunded), "{ledger}");

        bank.left.set(70);
        assert_eq!(case.apply("f2", "refund.failed", "re_2", 70).await, CallbackEffect::Parked, "{ledger}");
        assert_eq!(parked_callbacks(&case.fixture).await, bounced_callback("f2"), "{ledger}");
        let replayed = parked::reapply(&case.fixture.redis, &case.fixture.sql, "f2", NOW).await.unwrap();
        assert_eq!(replayed, ResolveOutcome::Done(CallbackEffect::Changed), "{ledger}");
        case.send(2).await;
        assert_eq!(bank.refunds.take(), [70, 70, 70], "{ledger}");
    }
}

/// The provider's answer says that it failed, and a late callback that it succeeded.
#[tokio::test]
async fn the_refund_of_the_rest_that_failed_by_an_answer_is_no_part() {
    for (ledger, provider) in on_each_ledger() {
        let bank = Bank::refunded_by_hand(30);
        let case = Case::paid(ledger, provider, &bank).await;
        case.apply_part("part", 30, 30).await;
        case.fixture.request_refund(&case.order_no).await.unwrap();
        bank.status.set("failed");
        case.send(0).await;
        case.apply("late", "refund.succeeded", "re_1", 70).await;
        bank.left.set(70);
        bank.status.set("succeeded");
        case.send(1).await;
        assert_eq!(bank.refunds.take(), [70, 70], "{ledger} {}", provider.as_str());
        assert_eq!(case.status().await, Some(OrderStatus::Refunded), "{ledger}");
    }
}

/// After a failure, reports that name no refund may be about the one that failed.
#[tokio::test]
async fn a_refund_of_nothing_is_not_sent_and_an_operator_hears_why() {
    for ledger in LEDGERS {
        let bank = Bank::refunded_by_hand(30);
        let case = Case::paid(ledger, PaymentProvider::Webhook, &bank).await;
        case.apply_part("part", 30, 30).await;
        case.fixture.request_refund(&case.order_no).await.unwrap();
        bank.status.set("failed");
        case.send(0).await;
        case.apply("late", "refund.succeeded", "", 70).await;
        bank.left.set(70);
        case.send(1).await;
        assert_eq!(bank.refunds.take(), [70], "{ledger}");
        let open = case.fixture.open_refunds().await.remove(0);
        assert!(open.last_error.contains("with its id"), "{ledger}: {}", open.last_error);
    }
}

#[tokio::test]
async fn a_crash_while_the_last_part_is_applied_counts_each_part_once() {
    crash_at_every_call(
        1,
        async |fixture| {
            let order_no = fixture.paid_order(1, "ada").await;
            let part = |id: &str, amount| part_of(&order_no, id, amount);
            callbacks::apply(&fixture.redis, &fixture.sql, &part("one", 30), NOW).await.unwrap();
            callbacks::apply(&fixture.redis, &fixture.sql, &part("two", 30), NOW).await.unwrap();
        },
        async |fixture| {
            let part = part_of(&fixture.order_no(1), "three", 40);
            callbacks::apply(&fixture.redis, &fixture.sql, &part, NOW).await.map(|_| ())
        },
        async |fixture, point| {
            let order_no = fixture.order_no(1);
            let is_known = callback_rows::list_for_order(&fixture.sql, &order_no).await.unwrap().len() == 4;
            let (status, refunded) = (fixture.ledger_status(&order_no).await, OrderStatus::Refunded);
            assert_eq!(status, Some(if is_known { refunded } else { OrderStatus::Paid }), "{point}");
            let refunds = refunds::list_for_order(&fixture.sql, &order_no).await.unwrap();
            assert_eq!(
                refunds.iter().map(|refund| refund.returned).collect::<Vec<_>>(),
                vec![100; refunds.len()],
                "{point}"
            );
        },
    )
    .await;
}

/// The report that a part of an order's payment is refunded.
fn part_of(order_no: &OrderNo, refund: &str, amount: i64) -> ProviderCallback {
    ProviderCallback {
        id: format!("{refund}-{order_no}"),
        money: Money::new(amount, "EUR"),
        refund_id: refund.to_owned(),
        provider: Some(PaymentProvider::Webhook),
        ..report("refund.succeeded", order_no, &format!("pay-{order_no}"))
    }
}
