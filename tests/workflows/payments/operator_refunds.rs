//! Tests of refunds by operators, of the whole payment or a part of it, on both ledgers (E4; I6).

use std::cell::{Cell, RefCell};

use domain::{
    ids::OrderNo,
    order::{Order, OrderStatus},
    webhook::PaymentProvider,
};
use futures::future::join;
use operations::commands::inbox::{self, InboxKind};
use payments::{
    callbacks::{
        CallbackEffect,
        parked::{self, ResolveOutcome},
    },
    commands::{CommandOutcome, RefundDecided, refund_by_operator},
    ledger::partial_refunds,
};
use serde_json::{Value, json};
use stores::{
    Redis, Sql, StoreError,
    http_client::{HttpClient, HttpRequest, HttpResponse, NoResponse},
    ledger::row_reader::RowReader,
};

use crate::{
    fixture::{Fixture, LEDGERS, NOW, open_connection},
    payments::{
        bounced_refunds::{bounced_callback, parked_callbacks},
        refund_case::{Case, on_each_ledger},
    },
};

/// Stripe, and the bank of a payment service: it has a payment of 100, and makes one refund for each idempotency key.
#[derive(Default)]
pub struct Bank {
    /// The key, the amount and the part of each refund.
    pub refunds: RefCell<Vec<(String, i64, String)>>,
    /// How many answers to refunds are lost.
    lost_answers: Cell<u32>,
    pub status: Cell<Option<&'static str>>,
    /// Whether it makes no refund: as much is not left.
    refuses: Cell<bool>,
    /// Whether it takes each part for the first one.
    ignores_parts: Cell<bool>,
}

impl Bank {
    pub fn amounts(&self) -> Vec<i64> {
        self.refunds.borrow().iter().map(|(_, amount, _)| *amount).collect()
    }

    fn document(&self, index: usize) -> Value {
        let id = format!("re_{}", index + 1);
        let part = self.refunds.borrow()[index].2.clone();
        json!({"id": id, "refund": id, "status": self.status.get().unwrap_or("pending"), "metadata": {"part": part}})
    }
}

impl HttpClient for &Bank {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, NoResponse> {
        let HttpRequest { url, body, headers, .. } = request;
        let call = serde_json::from_str::<Value>(&body).unwrap_or_default();
        let field = |name: &str| body.split('&').find_map(|field| Some(field.strip_prefix(name)?.to_owned()));
        let amount = call["data"]["amount"].as_i64().or_else(|| field("amount=")?.parse().ok());
        let mut status = 200;
        let answer = if amount.is_some() && self.refuses.get() {
            status = 400;
            json!({"error": {"param": "amount", "message": "too large"}})
        } else if amount.is_some() && self.ignores_parts.get() {
            self.document(0)
        } else if let Some(amount) = amount {
            let key = headers.into_iter().find(|(name, _)| *name == "idempotency-key").expect("a key").1;
            let known = self.refunds.borrow().iter().position(|(known, ..)| *known == key);
            let index = known.unwrap_or_else(|| {
                let part = field("metadata%5Bpart%5D=").unwrap_or_default();
                self.refunds.borrow_mut().push((key, amount, part));
                self.refunds.borrow().len() - 1
            });
            assert_eq!(self.refunds.borrow()[index].1, amount, "a key has one request");
            if self.lost_answers.get() > 0 {
                self.lost_answers.set(self.lost_answers.get() - 1);
                return Err(NoResponse("lost".to_owned()));
            }
            self.document(index)
        } else if url.contains("/v1/refunds?") {
            let made = self.refunds.borrow().len();
            json!({"data": (0..made).map(|index| self.document(index)).collect::<Vec<_>>()})
        } else {
            let id = call["data"]["refund"].as_str().or(url.rsplit('/').next()).expect("an id");
            self.document(id.trim_start_matches("re_").parse::<usize>().expect("a number") - 1)
        };
        Ok(HttpResponse { status, headers: Vec::new(), body: answer.to_string().into_bytes() })
    }
}

impl Case<'_, Bank> {
    async fn refund(&self, part: Option<(i64, &str)>) -> RefundDecided {
        refund(&self.fixture, &self.order_no, part).await.unwrap()
    }

    /// Reports a refund as succeeded; of Stripe's also the charge, with the sum of its refunds.
    async fn succeeded(&self, refund: &str, amount: i64, sum: i64) {
        self.apply(refund, "refund.succeeded", refund, amount).await;
        if self.provider == PaymentProvider::Stripe {
            self.apply(&format!("charge {sum}"), "refund.succeeded", "", sum).await;
        }
    }

    async fn returned(&self) -> i64 {
        partial_refunds::load_returned(&self.fixture.sql, &self.order_no).await.unwrap()
    }
}

pub async fn refund<R: Redis, S: Sql>(
    fixture: &Fixture<R, S>,
    order_no: &OrderNo,
    part: Option<(i64, &str)>,
) -> Result<RefundDecided, StoreError> {
    let decided = refund_by_operator(&fixture.sql, order_no, part, NOW).await?;
    if let RefundDecided::Decided(decided) = &decided {
        decided.sync(&fixture.redis).await;
    }
    Ok(decided)
}

/// The order that a request left, and whether it changed it.
fn done(decided: RefundDecided) -> (Order, bool) {
    match decided {
        RefundDecided::Decided(decided) => match decided.outcome {
            CommandOutcome::Done(order) => (*order, decided.changed.is_some()),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_part_keeps_the_order_paid_and_a_later_refund_gives_back_the_rest() {
    for (ledger, provider) in on_each_ledger() {
        let bank = Bank::default();
        let case = Case::paid(ledger, provider, &bank).await;
        let name = &case.name;
        for is_new in [true, false] {
            let (order, changed) = done(case.refund(Some((30, "one"))).await);
            assert_eq!((order.status, order.refunded, changed), (OrderStatus::Paid, 30, is_new), "{name}");
        }
        assert!(matches!(case.refund(Some((31, "one"))).await, RefundDecided::OtherAmount(30)), "{name}");
        let in_redis = orders::status::load_order(&case.fixture.redis, &case.order_no).await.unwrap().order.unwrap();
        assert_eq!((in_redis.status, in_redis.refunded), (OrderStatus::Paid, 30), "{name}");
        assert_eq!(json!(in_redis)["refunded_amount"], 30, "{name}");
        case.send(0).await;
        case.succeeded("re_1", 30, 30).await;
        case.succeeded("re_1", 30, 30).await;
        assert_eq!((case.returned().await, bank.amounts()), (30, vec![30]), "{name}");
        let revenue = case
            .fixture
            .sql
            .run("SELECT refunded FROM revenue WHERE activity = ?1", vec![case.order_no.activity().as_str().into()]);
        assert_eq!(RowReader::new(revenue.await.unwrap().remove(0)).int().unwrap(), 30, "{name}");
        assert_eq!(case.fixture.open_refunds().await, [], "{name}");
        assert_eq!(case.fixture.units().await, (4, 0, 1), "{name}");

        case.fixture.request_refund(&case.order_no).await.unwrap();
        case.send(1).await;
        assert_eq!(bank.amounts(), [30, 70], "{name}");
        case.succeeded("re_2", 70, 100).await;
        case.send(2).await;
        case.fixture.assert_status(&case.order_no, OrderStatus::Refunded, name).await;
        assert_eq!((bank.amounts(), parked_callbacks(&case.fixture).await), (vec![30, 70], vec![]), "{name}");
        assert_eq!(case.fixture.units().await, (5, 0, 0), "{name}");
    }
}

#[tokio::test]
async fn all_refunds_together_are_no_more_than_what_was_paid() {
    for (ledger, provider) in on_each_ledger() {
        let bank = Bank::default();
        let case = Case::paid(ledger, provider, &bank).await;
        let name = &case.name;
        assert!(matches!(case.refund(Some((101, "a"))).await, RefundDecided::AtMost(100)), "{name}");
        done(case.refund(Some((60, "a"))).await);
        assert!(matches!(case.refund(Some((41, "b"))).await, RefundDecided::AtMost(40)), "{name}");
        // The last part is a refund of the order.
        let (order, changed) = done(case.refund(Some((40, "c"))).await);
        assert_eq!((order.status, changed), (OrderStatus::Refunding, true), "{name}");
        assert!(!done(case.refund(Some((40, "c"))).await).1, "{name}");
        case.send(0).await;
        case.succeeded("re_1", 60, 60).await;
        case.send(1).await;
        assert_eq!(bank.amounts(), [60, 40], "{name}");
    }
}

#[tokio::test]
async fn of_two_parts_at_once_that_do_not_fit_one_is_taken() {
    let bank = Bank::default();
    let case = Case::paid("postgres", PaymentProvider::Webhook, &bank).await;
    let other = open_connection(&case.fixture).await;
    for (first, second, refunded) in [("a", "b", 60), ("c", "c", 90)] {
        let amount = if refunded == 60 { 60 } else { 30 };
        let one = refund_by_operator(&case.fixture.sql, &case.order_no, Some((amount, first)), NOW);
        let two = refund_by_operator(&other, &case.order_no, Some((amount, second)), NOW);
        let (one, two) = join(one, two).await;
        drop((one.unwrap(), two.unwrap()));
        assert_eq!(case.returned().await, refunded);
    }
}

#[tokio::test]
async fn a_part_whose_answer_is_lost_is_made_once_and_what_is_left_is_right() {
    for (ledger, provider) in on_each_ledger() {
        for is_reported in [false, true] {
            let bank = Bank::default();
            let case = Case::paid(ledger, provider, &bank).await;
            let name = &case.name;
            bank.lost_answers.set(2);
            done(case.refund(Some((30, "one"))).await);
            case.send(0).await;
            if is_reported {
                case.succeeded("re_1", 30, 30).await;
            }
            case.fixture.request_refund(&case.order_no).await.unwrap();
            bank.status.set(Some("succeeded"));
            for hours in 1..4 {
                case.send(hours).await;
            }
            assert_eq!(bank.amounts(), [30, 70], "{name}, reported: {is_reported}");
            for hours in 4..8 {
                case.send(hours * 10).await;
            }
            case.fixture.assert_status(&case.order_no, OrderStatus::Refunded, name).await;
            assert_eq!(case.fixture.open_refunds().await, [], "{name}");
            assert_eq!((bank.amounts().len(), parked_callbacks(&case.fixture).await), (2, vec![]), "{name}");
        }
    }
}

#[tokio::test]
async fn a_part_that_the_provider_refuses_is_not_taken_for_done_and_what_is_left_waits_for_it() {
    for (ledger, provider) in on_each_ledger() {
        let bank = Bank::default();
        let case = Case::paid(ledger, provider, &bank).await;
        let name = &case.name;
        bank.refuses.set(true);
        done(case.refund(Some((30, "one"))).await);
        case.send(0).await;
        case.fixture.request_refund(&case.order_no).await.unwrap();
        case.send(1).await;
        let open = case.fixture.open_refunds().await;
        let part = open.iter().find(|refund| !refund.part.is_empty()).expect("the part");
        assert!(open.len() == 2 && !part.last_error.is_empty(), "{name}: {open:?}");
        let in_inbox = inbox::load(&case.fixture.redis, &case.fixture.sql, "", NOW, None).await.unwrap();
        assert!(in_inbox.iter().any(|item| item.kind == InboxKind::FailedRefund), "{name}: {in_inbox:?}");
        bank.refuses.set(false);
        bank.status.set(Some("succeeded"));
        for hours in 2..4 {
            case.send(hours * 10).await;
        }
        assert_eq!(bank.amounts(), [30, 70], "{name}");
        case.fixture.assert_status(&case.order_no, OrderStatus::Refunded, name).await;
    }
}

#[tokio::test]
async fn a_failure_that_is_heard_before_the_answer_is_no_failure_of_a_part_by_hand() {
    for (ledger, provider) in on_each_ledger() {
        let bank = Bank::default();
        let case = Case::paid(ledger, provider, &bank).await;
        let name = &case.name;
        bank.lost_answers.set(2);
        done(case.refund(Some((30, "one"))).await);
        case.send(0).await;
        assert_eq!(case.apply("f", "refund.failed", "re_1", 30).await, CallbackEffect::NoChange, "{name}");
        assert_eq!(parked_callbacks(&case.fixture).await, vec![], "{name}");
        bank.status.set(Some("failed"));
        case.send(1).await;
        bank.status.set(Some("succeeded"));
        for hours in 2..4 {
            case.send(hours * 10).await;
        }
        assert_eq!((bank.amounts(), case.returned().await), (vec![30, 30], 30), "{name}");
        assert_eq!(case.fixture.open_refunds().await, [], "{name}");
    }
}

#[tokio::test]
async fn a_service_that_takes_each_part_for_the_first_one_has_given_back_the_first_one_only() {
    for ledger in LEDGERS {
        let bank = Bank::default();
        let case = Case::paid(ledger, PaymentProvider::Webhook, &bank).await;
        bank.status.set(Some("succeeded"));
        done(case.refund(Some((30, "one"))).await);
        case.send(0).await;
        bank.ignores_parts.set(true);
        done(case.refund(Some((20, "two"))).await);
        case.send(1).await;
        let open = case.fixture.open_refunds().await;
        assert!(open.len() == 1 && open[0].last_error.contains("another refund"), "{ledger}: {open:?}");
    }
}

#[tokio::test]
async fn a_part_that_failed_is_sent_again_and_one_that_bounced_by_an_operator() {
    for (ledger, provider) in on_each_ledger() {
        let bank = Bank::default();
        let case = Case::paid(ledger, provider, &bank).await;
        let name = &case.name;
        done(case.refund(Some((30, "one"))).await);
        case.send(0).await;
        for (id, effect) in [("f", CallbackEffect::Changed), ("f again", CallbackEffect::NoChange)] {
            assert_eq!(case.apply(id, "refund.failed", "re_1", 30).await, effect, "{name}");
        }
        case.send(1).await;
        assert_eq!(case.apply("late", "refund.succeeded", "re_1", 30).await, CallbackEffect::NoChange, "{name}");
        assert_eq!(case.fixture.open_refunds().await.len(), 1, "{name}: one that failed counts");
        case.succeeded("re_2", 30, 30).await;
        assert_eq!((case.fixture.open_refunds().await, case.returned().await), (vec![], 30), "{name}");

        assert_eq!(case.apply("f2", "refund.failed", "re_2", 30).await, CallbackEffect::Parked, "{name}");
        assert_eq!(parked_callbacks(&case.fixture).await, bounced_callback("f2"), "{name}");
        let replayed = parked::reapply(&case.fixture.redis, &case.fixture.sql, "f2", NOW).await.unwrap();
        assert_eq!(replayed, ResolveOutcome::Done(CallbackEffect::Changed), "{name}");
        case.send(2).await;
        assert_eq!((bank.amounts(), case.returned().await), (vec![30, 30, 30], 30), "{name}");
    }
}

/// Stripe's report of the charge has the sum of all refunds: those of the app are not counted twice.
#[tokio::test]
async fn a_part_beside_one_by_hand_leaves_what_neither_gave_back() {
    for (ledger, provider) in on_each_ledger() {
        let bank = Bank::default();
        let case = Case::paid(ledger, provider, &bank).await;
        let name = &case.name;
        case.succeeded("by hand", 20, 20).await;
        assert!(matches!(case.refund(Some((81, "a"))).await, RefundDecided::AtMost(80)), "{name}");
        done(case.refund(Some((30, "a"))).await);
        assert!(matches!(case.refund(Some((51, "b"))).await, RefundDecided::AtMost(50)), "{name}");
        case.send(0).await;
        case.succeeded("re_1", 30, 50).await;
        assert_eq!(case.returned().await, 50, "{name}");
        done(case.refund(None).await);
        case.send(1).await;
        assert_eq!(bank.amounts(), [30, 50], "{name}");
        case.succeeded("re_2", 50, 100).await;
        case.fixture.assert_status(&case.order_no, OrderStatus::Refunded, name).await;
    }
}

#[tokio::test]
async fn a_part_that_stripe_is_still_making_is_counted_once() {
    for ledger in LEDGERS {
        let bank = Bank::default();
        let case = Case::paid(ledger, PaymentProvider::Stripe, &bank).await;
        done(case.refund(Some((30, "a"))).await);
        case.send(0).await;
        case.apply("charge", "refund.succeeded", "", 30).await;
        assert_eq!(case.returned().await, 30, "{ledger}");
        let (order, _) = done(case.refund(Some((40, "b"))).await);
        assert_eq!((order.status, order.refunded), (OrderStatus::Paid, 70), "{ledger}");
        assert_eq!(case.returned().await, 70, "{ledger}");
    }
}
