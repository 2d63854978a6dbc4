//! Tests of a payment service of the shop (E1, E4, E5; I6): what it is asked, and what its answers and silence mean.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use domain::{
    api::payments::PaymentCall,
    language::Language,
    order::OrderStatus,
    webhook::{PaymentProvider, ProviderCallback, sign},
};
use operations::upkeep::passes;
use orders::ledger::order_rows;
use payments::{
    callbacks::{self, CallbackEffect, parked},
    checkout::{CheckoutError, checkout},
    commands::CommandOutcome,
    ledger::{addresses::SealedAddress, sessions},
    provider::{Caller, Presentation, Provider, Providers, RetryPolicy, Stripe, Webhook},
    refunds::send_due,
    sessions::close_due,
};
use serde_json::{Value, json};
use stores::{
    Sql,
    http_client::{HttpClient, HttpRequest, HttpResponse, NoResponse},
};
use support::OpenApi;

use crate::{
    fakes::header,
    fixture::{DUE, LEDGERS, NOW, new_fixture},
    operations::epochs::RealFixture,
    payments::report,
};

const SECRETS: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// The providers of an app, both with their variables set.
pub fn providers<C: HttpClient + Clone>(configured: PaymentProvider, service: C, stripe: C) -> Providers<C> {
    let caller = |http_client| Caller {
        http_client,
        retry: RetryPolicy { max_attempts: 2, timeout_ms: 1 },
        clock: || NOW,
        sleep: |_| Box::pin(async {}),
    };
    let shop_url = "https://shop.example".to_owned();
    let webhook = Webhook {
        name: PaymentProvider::Webhook,
        caller: caller(service),
        url: "https://pay.shop.example/stampede".to_owned(),
        secrets: SECRETS.to_owned(),
        shop_url: shop_url.clone(),
    };
    let stripe = Stripe {
        caller: caller(stripe),
        api_url: "https://stripe.example".to_owned(),
        api_key: "sk_test".to_owned(),
        payment_methods: "card".to_owned(),
        shop_url,
        shipping_countries: vec!["DE".to_owned(), "AT".to_owned()],
        seal: Rc::new(|_, address| serde_json::to_string(address).ok()),
    };
    Providers { configured, webhook: Some(webhook), stripe: Some(stripe) }
}

/// A payment service. A repeated call that creates something gets the first answer.
#[derive(Default)]
struct Service {
    /// Id and data of every call, in the order of arrival.
    calls: RefCell<Vec<(String, PaymentCall)>>,
    /// Answers by id.
    answers: RefCell<Vec<(String, Value)>>,
    /// How the next calls are answered, taken from the end: instead of the answer a status with a body, or nothing for
    /// status 0. The call takes effect.
    faults: RefCell<Vec<(u16, &'static str)>>,
    /// The answer to `session.close`.
    closed: RefCell<Value>,
    /// The status in answers about refunds.
    refund_status: RefCell<&'static str>,
}

impl Service {
    fn answer(&self, id: &str, call: &PaymentCall) -> Value {
        match call {
            PaymentCall::OpenSession(open) => {
                let session = format!("s-{}-{}", open.order_no, open.session_number);
                json!({"session": session, "url": format!("https://pay.shop.example/{session}")})
            }
            PaymentCall::CloseSession(_) => self.closed.borrow().clone(),
            PaymentCall::CreateRefund(_) => {
                json!({"refund": format!("re-{id}"), "status": *self.refund_status.borrow()})
            }
            PaymentCall::GetRefund(get) => json!({"refund": get.refund, "status": *self.refund_status.borrow()}),
        }
    }

    /// The ids of the calls whose type begins with `kind`.
    fn ids(&self, kind: &str) -> Vec<String> {
        let calls = self.calls.borrow();
        let ids = calls.iter().filter(|(_, call)| json!(call)["type"].as_str().unwrap().starts_with(kind));
        ids.map(|(id, _)| id.clone()).collect()
    }
}

impl HttpClient for &Service {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, NoResponse> {
        let id = header(&request, "webhook-id").to_owned();
        let signed = sign(SECRETS, id.clone(), NOW, request.body.clone()).unwrap();
        for (name, value) in signed.headers() {
            assert_eq!(header(&request, name), value, "{name}");
        }
        assert_eq!(header(&request, "idempotency-key"), id);
        assert_eq!((request.method, request.url.as_str()), ("POST", "https://pay.shop.example/stampede"));
        let call: PaymentCall = serde_json::from_value(OpenApi::of_app().parse_message(&request.body)).unwrap();
        self.calls.borrow_mut().push((id.clone(), call.clone()));
        let known = self.answers.borrow().iter().find(|(known, _)| *known == id).map(|(_, answer)| answer.clone());
        let answer = known.unwrap_or_else(|| self.answer(&id, &call));
        if matches!(call, PaymentCall::OpenSession(_) | PaymentCall::CreateRefund(_)) {
            self.answers.borrow_mut().push((id, answer.clone()));
        }
        let (status, body) = match self.faults.borrow_mut().pop() {
            Some((0, _)) => return Err(NoResponse("silence".to_owned())),
            Some((status, body)) => (status, body.to_owned()),
            None => (200, answer.to_string()),
        };
        Ok(HttpResponse { status, headers: Vec::new(), body: body.into_bytes() })
    }
}

async fn check_out(
    fixture: &RealFixture,
    providers: &Providers<&Service>,
    n: u64,
    language: &str,
) -> Result<CommandOutcome, CheckoutError> {
    let order = order_rows::load(&fixture.sql, &fixture.order_no(n)).await.unwrap().unwrap().order;
    let language = Language::try_from(language.to_owned()).unwrap();
    let address = SealedAddress { sealed: "sealed", language: &language };
    let (outcome, session_number) = checkout(&fixture.sql, providers, &order, address, NOW).await?;
    fixture.show_session(&outcome, session_number).await;
    Ok(outcome)
}

/// A status that says nothing, and bodies that are no answer.
const NO_ANSWERS: [(u16, &str); 8] = [
    (0, ""),
    (404, r#"{"status":"closed"}"#),
    (500, ""),
    (301, ""),
    (200, "{"),
    (200, "{}"),
    (204, ""),
    (200, r#"{"session":"","url":"https://x.example","status":"lost","refund":""}"#),
];

#[tokio::test]
async fn a_lost_answer_opens_no_second_session_and_the_first_checkout_decides_what_its_page_shows() {
    for ledger in LEDGERS {
        let (fixture, service) = (new_fixture(ledger, 5, 1).await, Service::default());
        let providers = providers(PaymentProvider::Webhook, &service, &service);
        let order_no = fixture.pending_order(1, "ada", 1).await;
        for no_answer in NO_ANSWERS {
            service.faults.replace(vec![no_answer; 2]);
            let result = check_out(&fixture, &providers, 1, "zh-CN").await;
            assert!(matches!(result, Err(CheckoutError::Provider(_))), "{ledger}: {no_answer:?}: {result:?}");
            assert_eq!(fixture.ledger_status(&order_no).await, Some(OrderStatus::PendingPayment), "{ledger}");
        }
        service.faults.take();
        // The operator renames the item, and the buyer comes back in another language.
        let rename = "UPDATE activities SET spec = REPLACE(spec, 'Phone', 'Renamed') WHERE id = ?1";
        fixture.sql.run(rename, vec![fixture.activity.as_str().into()]).await.unwrap();
        let CommandOutcome::Done(order) = check_out(&fixture, &providers, 1, "en").await.unwrap() else { panic!() };
        assert_eq!(order.checkout_url, Some(format!("https://pay.shop.example/s-{order_no}-1")), "{ledger}");
        let id = format!("open_{}_1", order_no.ulid());
        assert!(service.ids("session.open").iter().all(|sent| *sent == id), "{ledger}");
        for (_, call) in service.calls.borrow().iter() {
            let PaymentCall::OpenSession(open) = call else { panic!("{call:?}") };
            let shown = (open.name.as_str(), open.language.as_str(), open.money.amount, open.quantity);
            assert_eq!(shown, ("Phone", "zh-CN", 100, 1), "{ledger}");
            let order_url = format!("https://shop.example/order?order_no={order_no}");
            assert_eq!((&open.cancel_url, &open.return_url), (&order_url, &format!("{order_url}&payment=done")));
        }
    }
}

/// Buyers are told apart whether to try again.
#[tokio::test]
async fn only_an_answer_that_comes_again_is_a_refusal() {
    let fixture = new_fixture(LEDGERS[0], 5, 1).await;
    fixture.pending_order(1, "ada", 1).await;
    for provider in [PaymentProvider::Webhook, PaymentProvider::Stripe] {
        let faulty = Faulty::default();
        let providers = providers(provider, &faulty, &faulty);
        let statuses = [400, 401, 402, 404, 413, 422].map(|status| (status, true));
        for (status, is_refusal) in
            statuses.into_iter().chain([0, 301, 408, 409, 425, 429, 500, 503].map(|it| (it, false)))
        {
            faulty.0.set(status);
            let order = order_rows::load(&fixture.sql, &fixture.order_no(1)).await.unwrap().unwrap().order;
            let failure = providers.open_session(&order, 1, &Presentation::default()).await.unwrap_err();
            assert_eq!(failure.is_refusal, is_refusal, "{status}: {failure}");
        }
    }
}

/// Answers each request with this status; 0 is no answer.
#[derive(Default)]
struct Faulty(Cell<u16>);

impl HttpClient for &Faulty {
    async fn send(&self, _: HttpRequest) -> Result<HttpResponse, NoResponse> {
        match self.0.get() {
            0 => Err(NoResponse("silence".to_owned())),
            status => Ok(HttpResponse { status, headers: Vec::new(), body: b"{}".to_vec() }),
        }
    }
}

#[tokio::test]
async fn an_order_is_released_only_after_the_service_closed_its_session() {
    for ledger in LEDGERS {
        let closed = (json!({"status": "closed"}), OrderStatus::Expired);
        let paid = (json!({"status": "paid", "payment": "p", "amount": 100, "currency": "EUR"}), OrderStatus::Paid);
        for (answer, expected) in [closed, paid] {
            let (fixture, service) = (new_fixture(ledger, 5, 1).await, Service::default());
            let providers = providers(PaymentProvider::Webhook, &service, &service);
            let order_no = fixture.pending_order(1, "ada", 1).await;
            check_out(&fixture, &providers, 1, "").await.unwrap();
            let mut now = DUE;
            let mut sweep = async || {
                now = now.plus(1_000);
                fixture.sql.run("UPDATE sessions SET next_ask_at = 0", Vec::new()).await.unwrap();
                close_due(&fixture.redis, &fixture.sql, &providers, now, 100).await.unwrap();
                passes::expire(&fixture.redis, &fixture.sql, &fixture.activity, now, None).await.unwrap();
                fixture.ledger_status(&order_no).await.unwrap()
            };
            service.closed.replace(json!({"status": "processing"}));
            assert_eq!(sweep().await, OrderStatus::PendingPayment, "{ledger}");
            service.closed.replace(answer);
            for no_answer in NO_ANSWERS {
                service.faults.replace(vec![no_answer; 2]);
                assert_eq!(sweep().await, OrderStatus::PendingPayment, "{ledger}: {no_answer:?}");
            }
            service.faults.take();
            assert_eq!(sweep().await, expected, "{ledger}");
        }
    }
}

#[tokio::test]
async fn a_refund_without_an_answer_is_sent_again_as_the_same_one_and_a_failed_one_as_a_new_one() {
    for ledger in LEDGERS {
        let (fixture, service) = (new_fixture(ledger, 5, 1).await, Service::default());
        let providers = providers(PaymentProvider::Webhook, &service, &service);
        let order_no = fixture.pending_order(1, "ada", 1).await;
        check_out(&fixture, &providers, 1, "").await.unwrap();
        fixture.payment_succeeded(&order_no, "e").await.unwrap();
        fixture.request_refund(&order_no).await.unwrap();
        let mut now = NOW;
        let mut send = async || {
            now = now.plus(3_600_000);
            send_due(&fixture.redis, &fixture.sql, &providers, now, 10).await.unwrap()
        };
        for no_answer in NO_ANSWERS {
            service.faults.replace(vec![no_answer; 2]);
            assert_eq!(send().await.failed.len(), 1, "{ledger}: {no_answer:?}");
        }
        service.faults.take();
        let open = fixture.open_refunds().await;
        let refund = (open[0].failures, open[0].refund.as_str(), open[0].provider.as_str());
        assert_eq!(refund, (0, "", "webhook"), "{ledger}");
        let mut first = service.ids("refund.create");
        first.dedup();
        assert_eq!(first.len(), 1, "{ledger}: one refund, however often it was sent");

        service.answers.take();
        service.refund_status.replace("failed");
        assert_eq!(send().await.failed.len(), 1, "{ledger}");
        service.refund_status.replace("pending");
        assert_eq!(send().await.failed, [], "{ledger}");
        let second = service.ids("refund.create").pop().unwrap();
        assert_ne!(second, first[0], "{ledger}: a new refund");
        service.refund_status.replace("succeeded");
        assert_eq!(send().await.failed, [], "{ledger}");
        assert_eq!(service.ids("refund.get").len(), 1, "{ledger}: the accepted refund was looked up");
        assert_eq!(fixture.ledger_status(&order_no).await, Some(OrderStatus::Refunded), "{ledger}");
        assert_eq!(fixture.units().await, (5, 0, 0), "{ledger}");
    }
}

/// The shop changes its provider while orders of the first one are alive.
#[tokio::test]
async fn an_order_stays_with_the_provider_that_opened_its_session() {
    for ledger in LEDGERS {
        let (fixture, service, stripe) = (new_fixture(ledger, 5, 1).await, Service::default(), Service::default());
        service.refund_status.replace("pending");
        service.closed.replace(json!({"status": "closed"}));
        let before = providers(PaymentProvider::Webhook, &service, &stripe);
        let mut after = providers(PaymentProvider::Stripe, &service, &stripe);
        let (refunded, unpaid) = (fixture.pending_order(1, "ada", 1).await, fixture.pending_order(2, "bob", 1).await);
        for n in 1..=2 {
            check_out(&fixture, &before, n, "").await.unwrap();
        }
        fixture.payment_succeeded(&refunded, "e").await.unwrap();
        fixture.request_refund(&refunded).await.unwrap();
        let webhook = after.webhook.take();
        let failed = send_due(&fixture.redis, &fixture.sql, &after, NOW, 10).await.unwrap().failed;
        assert_eq!(failed[0].reason, "webhook has the payment, and its variables are not set", "{ledger}");
        assert_eq!(close_due(&fixture.redis, &fixture.sql, &after, DUE, 10).await.unwrap().unanswered.len(), 1);
        after.webhook = webhook;
        send_due(&fixture.redis, &fixture.sql, &after, NOW.plus(60_000), 10).await.unwrap();
        close_due(&fixture.redis, &fixture.sql, &after, DUE.plus(60_000), 10).await.unwrap();
        assert_eq!((service.ids("refund").len(), service.ids("session.close").len()), (1, 1), "{ledger}");
        assert_eq!(fixture.redis_checkout_url(&unpaid).await, None, "{ledger}: its session is closed");
        assert!(stripe.calls.borrow().is_empty(), "{ledger}");
    }
}

/// The shop changes its provider between two checkouts of an order.
#[tokio::test]
async fn a_checkout_under_another_provider_returns_the_open_session_of_the_first() {
    for ledger in LEDGERS {
        let (fixture, service, stripe) = (new_fixture(ledger, 5, 1).await, Service::default(), Service::default());
        let order_no = fixture.pending_order(1, "ada", 1).await;
        for configured in [PaymentProvider::Webhook, PaymentProvider::Stripe] {
            let outcome = check_out(&fixture, &providers(configured, &service, &stripe), 1, "").await.unwrap();
            let CommandOutcome::Done(order) = outcome else { panic!("{ledger}") };
            assert_eq!(order.checkout_url, Some(format!("https://pay.shop.example/s-{order_no}-1")), "{ledger}");
            assert_eq!(fixture.order_row(&order_no).await.provider, "webhook", "{ledger}");
        }
        // Another replica, still with the first provider, opened a session at the same time: the saved one stays.
        fixture.open_session(&order_no, PaymentProvider::Stripe, NOW).await.unwrap();
        assert_eq!(fixture.order_row(&order_no).await.provider, "webhook", "{ledger}");
        let due = sessions::claim_due(&fixture.sql, DUE, 10).await.unwrap();
        assert_eq!(due.iter().map(|due| due.provider.as_str()).collect::<Vec<_>>(), ["webhook"], "{ledger}");
        assert!(stripe.calls.borrow().is_empty(), "{ledger}");
    }
}

/// An operator refunds the payment that another provider than the order's reported.
#[tokio::test]
async fn the_provider_that_has_an_overpayment_refunds_it() {
    for ledger in LEDGERS {
        let (fixture, service, stripe) = (new_fixture(ledger, 5, 1).await, Service::default(), Service::default());
        let order_no = fixture.pending_order(1, "ada", 1).await;
        fixture.open_session(&order_no, PaymentProvider::Stripe, NOW).await.unwrap();
        let apply = async |kind: &str, refund: &str| {
            let callback = ProviderCallback {
                refund_id: refund.to_owned(),
                provider: Some(PaymentProvider::Webhook),
                ..report(kind, &order_no, "p")
            };
            callbacks::apply(&fixture.redis, &fixture.sql, &callback, NOW).await.unwrap()
        };
        assert_eq!(apply("payment.succeeded", "").await, CallbackEffect::Parked, "{ledger}");
        parked::refund(&fixture.redis, &fixture.sql, "payment.succeeded-p", NOW).await.unwrap();
        service.refund_status.replace("pending");
        let providers = providers(PaymentProvider::Stripe, &service, &stripe);
        let sent = send_due(&fixture.redis, &fixture.sql, &providers, NOW.plus(1_000), 10).await.unwrap();
        assert_eq!((sent.failed, service.ids("refund.create").len()), (vec![], 1), "{ledger}");
        let refund = fixture.open_refunds().await.remove(0).refund;
        assert_eq!(apply("refund.succeeded", &refund).await, CallbackEffect::Changed, "{ledger}");
        assert!(fixture.open_refunds().await.is_empty(), "{ledger}");
        assert!(stripe.calls.borrow().is_empty(), "{ledger}");
    }
}

#[tokio::test]
async fn a_second_payment_without_an_id_is_parked() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 1).await;
        let order_no = fixture.pending_order(1, "ada", 1).await;
        for (id, effect) in
            [("one", CallbackEffect::Changed), ("one", CallbackEffect::NoChange), ("two", CallbackEffect::Parked)]
        {
            let callback = ProviderCallback { id: id.to_owned(), ..report("payment.succeeded", &order_no, "") };
            let applied = callbacks::apply(&fixture.redis, &fixture.sql, &callback, NOW).await.unwrap();
            assert_eq!(applied, effect, "{ledger}: {id}");
        }
    }
}

/// Buyers are sent there.
#[tokio::test]
async fn only_a_web_page_is_shown_as_a_payment_page() {
    let fixture = new_fixture(LEDGERS[0], 5, 1).await;
    let service = Service::default();
    let providers = providers(PaymentProvider::Webhook, &service, &service);
    fixture.pending_order(1, "ada", 1).await;
    for url in ["javascript:alert(1)", "/order", "//x.example", ""] {
        service
            .answers
            .replace(vec![(format!("open_{}_1", fixture.order_no(1).ulid()), json!({"session": "s", "url": url}))]);
        assert!(matches!(check_out(&fixture, &providers, 1, "").await, Err(CheckoutError::Provider(_))), "{url}");
    }
}
