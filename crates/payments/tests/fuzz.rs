//! Fuzzes what payment providers answer: no answer panics, and none sends a buyer elsewhere than to a web page.
//!
//! As `crates/domain/tests/fuzz.rs`.
#![allow(clippy::expect_used, clippy::panic, reason = "a test that panics has failed")]

#[path = "../../domain/tests/fuzz/mutations.rs"]
mod mutations;

use std::rc::Rc;

use domain::{
    ids::{OrderNo, SkuId, UserId},
    money::Money,
    order::{Order, OrderStatus},
    time::Millis,
    webhook::PaymentProvider,
};
use futures::executor::block_on;
use mutations::fuzz;
use payments::{
    ledger::{
        refunds::{Refund, RefundKind},
        sessions::DueSession,
    },
    provider::{Caller, Presentation, Provider, RefundStatus, RetryPolicy, SessionStatus, Stripe, Webhook},
};
use stores::http_client::{HttpClient, HttpRequest, HttpResponse, NoResponse};

/// A provider that answers every call with this status, and these bytes as body and as `Retry-After`.
#[derive(Clone)]
struct Answers(u16, Vec<u8>);

impl HttpClient for Answers {
    async fn send(&self, _: HttpRequest) -> Result<HttpResponse, NoResponse> {
        let headers = vec![("retry-after".to_owned(), String::from_utf8_lossy(&self.1).into_owned())];
        Ok(HttpResponse { status: self.0, headers, body: self.1.clone() })
    }
}

fn order() -> Order {
    Order {
        order_no: OrderNo::parse("demo.01ARZ3NDEKTSV4RRFFQ69G5FAV").expect("an order number"),
        user: UserId::parse("ada").expect("an id"),
        status: OrderStatus::PendingPayment,
        sku: SkuId::parse("a").expect("an id"),
        quantity: 1,
        money: Money::new(100, "EUR"),
        created_at: Millis(0),
        pay_by: Some(Millis(60_000)),
        paid_at: None,
        reason: None,
        checkout_url: None,
        refunded: 0,
        declined_at: None,
        ahead: Some(0),
        estimated_wait_ms: 0,
    }
}

fn refund(id: &str) -> Refund {
    Refund {
        kind: RefundKind::Orders,
        part: String::new(),
        order_no: order().order_no.to_string(),
        payment: "pay_1".to_owned(),
        money: Money::new(100, "EUR"),
        returned: 0,
        state: "requested".to_owned(),
        refund: id.to_owned(),
        failures: 0,
        attempts: 0,
        next_try_at: Millis(0),
        last_error: String::new(),
        provider: String::new(),
    }
}

/// Makes each call of a provider that answers with `status`, and checks what it makes of the answer.
async fn call(provider: &impl Provider, status: u16) {
    if let Ok(opened) = provider.open_session(&order(), 1, &Presentation::default()).await {
        let is_page = opened.url.starts_with("https://") || opened.url.starts_with("http://");
        let is_id = (1..=200).contains(&opened.session_id.chars().count()) && !opened.session_id.contains('\0');
        assert!(is_page && is_id && status == 200, "{opened:?}");
    }
    let due = DueSession { order_no: order().order_no, id: "s".to_owned(), provider: String::new() };
    if let Ok(SessionStatus::Paid { .. } | SessionStatus::Unpaid) = provider.close_session(&due).await {
        assert_eq!(status, 200);
    }
    for id in ["", "re_1"] {
        let is_refunded = matches!(provider.refund(&refund(id)).await, Ok(RefundStatus::Succeeded { .. }));
        // Stripe answers a second refund of a payment with an error that says that it is refunded.
        assert!(!is_refunded || status == 200 || provider.name() == PaymentProvider::Stripe);
    }
}

#[test]
fn answers_of_payment_providers_are_read_or_refused() {
    let samples: [&[u8]; 6] = [
        br#"{"session":"cs_1","url":"https://pay.example/cs_1"}"#,
        br#"{"status":"paid","payment":"pay_1","amount":100,"currency":"EUR"}"#,
        br#"{"refund":"re_1","status":"succeeded"}"#,
        br#"{"id":"cs_1","url":"https://pay.example/cs_1","status":"open","payment_status":"unpaid"}"#,
        br#"{"id":"cs_1","status":"complete","payment_status":"paid","payment_intent":{"id":"pi_1"},"amount_total":100}"#,
        br#"{"error":{"type":"invalid_request_error","code":"charge_already_refunded","message":"-"}}"#,
    ];
    fuzz(&samples, |bytes| {
        for status in [200, 302, 400] {
            let caller = || Caller {
                http_client: Answers(status, bytes.to_vec()),
                retry: RetryPolicy::SWEEPER,
                clock: || Millis(1_000),
                sleep: |_| Box::pin(async {}),
            };
            let text = |text: &str| text.to_owned();
            let (shop_url, api_key) = (text("https://shop.example"), text("sk"));
            let (api_url, payment_methods) = (text("https://stripe.example"), text("card"));
            let stripe = Stripe {
                caller: caller(),
                api_url,
                api_key,
                payment_methods,
                shop_url,
                shipping_countries: Vec::new(),
                seal: Rc::new(|_, _| None),
            };
            block_on(call(&stripe, status));
            let webhook = Webhook {
                name: PaymentProvider::Webhook,
                caller: caller(),
                url: text("https://payments.example"),
                secrets: text("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"),
                shop_url: text("https://shop.example"),
            };
            block_on(call(&webhook, status));
        }
    });
}
