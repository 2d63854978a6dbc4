//! In-memory fakes of the shop's event endpoint, of a payment provider and of key-value.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
};

use domain::{money::Money, order::Order, time::Millis, webhook::PaymentProvider};
use payments::{
    ledger::{refunds::Refund, sessions::DueSession},
    provider::{OpenedSession, Presentation, Provider, ProviderError, RefundStatus, SessionStatus},
};
use stores::{
    http_client::{HttpClient, HttpRequest, HttpResponse, NoResponse},
    ports::KeyValue,
};

use crate::OpenApi;

/// An HTTP endpoint that records requests and returns scripted responses.
#[derive(Default)]
pub struct FakeEndpoint {
    /// All requests, in the order of arrival.
    pub requests: RefCell<Vec<HttpRequest>>,
    /// Next responses as status and `Retry-After`, taken from the end; 204 if empty. Status 0 is no response.
    pub responses: RefCell<Vec<(u16, &'static str)>>,
}

impl FakeEndpoint {
    /// The `webhook-id` of each request, in the order of arrival.
    pub fn event_ids(&self) -> Vec<String> {
        self.requests.borrow().iter().map(|request| header(request, "webhook-id").to_owned()).collect()
    }

    /// The bodies of all requests, which are events as the OpenAPI document has them, in the order of arrival.
    pub fn documents(&self) -> Vec<serde_json::Value> {
        let requests = self.requests.borrow();
        requests.iter().map(|request| OpenApi::of_app().parse_message(&request.body)).collect()
    }

    /// Deletes the recorded requests.
    pub fn clear(&self) {
        self.requests.borrow_mut().clear();
    }
}

/// Returns a header of a request, or an empty text.
pub fn header<'a>(request: &'a HttpRequest, name: &str) -> &'a str {
    request.headers.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value)
}

impl HttpClient for FakeEndpoint {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, NoResponse> {
        self.requests.borrow_mut().push(request);
        let (status, retry_after) = self.responses.borrow_mut().pop().unwrap_or((204, ""));
        if status == 0 {
            return Err(NoResponse("silence".to_owned()));
        }
        let headers = vec![("retry-after".to_owned(), retry_after.to_owned())];
        Ok(HttpResponse { status, headers, body: Vec::new() })
    }
}

impl HttpClient for &FakeEndpoint {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, NoResponse> {
        FakeEndpoint::send(self, request).await
    }
}

/// A key-value store.
#[derive(Default)]
pub struct FakeKeyValue {
    /// The copies by key.
    pub copies: RefCell<BTreeMap<String, Vec<u8>>>,
}

impl KeyValue for FakeKeyValue {
    async fn read_copy(&self, key: &str) -> Option<Vec<u8>> {
        self.copies.borrow().get(key).cloned()
    }

    async fn write_copy(&self, key: &str, value: &[u8]) {
        self.copies.borrow_mut().insert(key.to_owned(), value.to_vec());
    }

    fn now(&self) -> Millis {
        Millis(0)
    }

    async fn sleep(&self, _: i64) {}

    fn random_bits(&self) -> u128 {
        0
    }
}

/// A session's id, and its payment's id once it is paid.
type Session = (String, Option<String>);

/// A payment provider whose behaviour the test sets.
#[derive(Default)]
pub struct FakeProvider {
    /// Sessions by order number and attempt.
    pub sessions: RefCell<BTreeMap<(String, i64), Session>>,
    /// Ids of sessions that ended by themselves or were closed.
    pub ended_sessions: RefCell<Vec<String>>,
    /// Refund ids by payment and number of failures: a request with the same key is the same refund.
    pub refunds: RefCell<BTreeMap<(String, i64), String>>,
    /// What the payment page was to show, for each session that was opened.
    pub shown: RefCell<Vec<Presentation>>,
    /// Number of calls.
    pub calls: Cell<u32>,
    /// Whether calls take effect and their responses are lost.
    pub drops_responses: Cell<bool>,
    /// Whether it refuses to open sessions.
    pub refuses_sessions: Cell<bool>,
    /// How it answers refunds.
    pub refund_behaviour: Cell<RefundBehaviour>,
}

/// How [`FakeProvider`] answers a refund.
#[derive(Clone, Copy, Default, PartialEq)]
pub enum RefundBehaviour {
    /// Pending; a callback reports the result.
    #[default]
    Accept,
    /// Succeeded at once.
    Succeed,
    /// Failed at once.
    Fail,
    /// The payment's money is back already, by a refund that the answer does not name.
    IsBack,
    /// The same, and the answer names the refund that failed first.
    IsBackByFirst,
}

impl FakeProvider {
    /// Returns the id of an order's last session.
    pub fn last_session(&self, order_no: &str) -> String {
        let sessions = self.sessions.borrow();
        let (_, (session, _)) = sessions.iter().rfind(|((order, _), _)| order == order_no).expect("a session");
        session.clone()
    }

    /// Ends an order's last session as if by timeout.
    pub fn end_last_session(&self, order_no: &str) {
        let session = self.last_session(order_no);
        self.ended_sessions.borrow_mut().push(session);
    }

    /// Pays an order's last session, as the buyer does on the provider's page.
    pub fn pay(&self, order_no: &str) {
        let mut sessions = self.sessions.borrow_mut();
        let (_, (session, payment)) =
            sessions.iter_mut().rfind(|((order, _), _)| order == order_no).expect("a session");
        *payment = Some(format!("pay-{order_no}"));
        assert!(!self.ended_sessions.borrow().contains(session), "an ended session cannot be paid");
    }

    fn respond<T>(&self, response: T) -> Result<T, ProviderError> {
        self.calls.set(self.calls.get() + 1);
        if self.drops_responses.get() { Err(ProviderError::new("silence")) } else { Ok(response) }
    }
}

impl Provider for FakeProvider {
    fn name(&self) -> PaymentProvider {
        PaymentProvider::Stripe
    }

    async fn open_session(
        &self,
        order: &Order,
        session_number: i64,
        shown: &Presentation,
    ) -> Result<OpenedSession, ProviderError> {
        self.shown.borrow_mut().push(shown.clone());
        if self.refuses_sessions.get() {
            return Err(ProviderError::refusal("too little"));
        }
        let order_no = order.order_no.to_string();
        let mut sessions = self.sessions.borrow_mut();
        let new_session = (format!("cs-{order_no}-{session_number}"), None);
        let (session, _) = sessions.entry((order_no, session_number)).or_insert(new_session);
        self.respond(OpenedSession { url: format!("https://provider.example/{session}"), session_id: session.clone() })
    }

    async fn close_session(&self, DueSession { id: session, .. }: &DueSession) -> Result<SessionStatus, ProviderError> {
        let sessions = self.sessions.borrow();
        let (_, payment) = sessions.values().find(|(known, _)| known == session).expect("a session");
        self.respond(match payment {
            Some(payment) => SessionStatus::Paid {
                payment_id: payment.clone(),
                money: Money::new(100, "EUR"),
                sealed_address: String::new(),
            },
            None => {
                if !self.ended_sessions.borrow().iter().any(|ended| ended == session) {
                    self.ended_sessions.borrow_mut().push(session.to_owned());
                }
                SessionStatus::Unpaid
            }
        })
    }

    async fn refund(&self, refund: &Refund) -> Result<RefundStatus, ProviderError> {
        let mut refunds = self.refunds.borrow_mut();
        let next_number = refunds.len();
        let entry = refunds.entry((refund.payment.clone(), refund.failures));
        let id = entry.or_insert_with(|| format!("re_{next_number}")).clone();
        self.respond(match self.refund_behaviour.get() {
            RefundBehaviour::Accept => RefundStatus::Pending { refund_id: id },
            RefundBehaviour::Succeed => RefundStatus::Succeeded { refund_id: id },
            RefundBehaviour::IsBackByFirst => RefundStatus::Succeeded { refund_id: "re_1".to_owned() },
            RefundBehaviour::IsBack => RefundStatus::Succeeded { refund_id: String::new() },
            RefundBehaviour::Fail => RefundStatus::Failed { refund_id: id, reason: "the card is gone".to_owned() },
        })
    }
}
