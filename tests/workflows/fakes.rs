//! A shop's endpoint and a payment provider that live in memory, remember everything, and do as they are told.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
};

use domain::{money::Money, order::Order};
use workflows::{
    http_client::{HttpClient, HttpRequest, HttpResponse, NoResponse},
    ledger::refunds::Refund,
    payments::provider::{Closed, Opened, Provider, Refunded, Unknown},
};

/// The shop's endpoint of events.
#[derive(Default)]
pub struct Endpoint {
    /// Every request that came.
    pub seen: RefCell<Vec<HttpRequest>>,
    /// What it answers next, the last one first; empty for 204 for ever. 0 is silence.
    pub answers: RefCell<Vec<(u16, &'static str)>>,
}

impl Endpoint {
    /// Ids and types of the events that were accepted, in the order in which they came.
    pub fn ids(&self) -> Vec<String> {
        self.seen.borrow().iter().map(|request| header(request, "webhook-id").to_owned()).collect()
    }

    /// The documents that came, in order.
    pub fn documents(&self) -> Vec<serde_json::Value> {
        self.seen.borrow().iter().map(|request| serde_json::from_str(&request.body).unwrap()).collect()
    }

    /// Forgets what came.
    pub fn forget(&self) {
        self.seen.borrow_mut().clear();
    }
}

/// A header of a request.
pub fn header<'a>(request: &'a HttpRequest, name: &str) -> &'a str {
    request.headers.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value)
}

impl HttpClient for Endpoint {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, NoResponse> {
        self.seen.borrow_mut().push(request);
        let (status, retry_after) = self.answers.borrow_mut().pop().unwrap_or((204, ""));
        if status == 0 {
            return Err(NoResponse("silence".to_owned()));
        }
        let headers = vec![("retry-after".to_owned(), retry_after.to_owned())];
        Ok(HttpResponse { status, headers, body: Vec::new() })
    }
}

impl HttpClient for &Endpoint {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, NoResponse> {
        Endpoint::send(self, request).await
    }
}

/// A session's id, and the payment that it was paid with.
type Session = (String, Option<String>);

/// A provider of payments.
#[derive(Default)]
pub struct Till {
    /// Sessions by order and attempt.
    pub sessions: RefCell<BTreeMap<(String, i64), Session>>,
    /// Sessions that ended, or were ended.
    pub ended: RefCell<Vec<String>>,
    /// Refunds by what makes them one and the same.
    pub refunds: RefCell<BTreeMap<(String, i64), String>>,
    /// Calls that came.
    pub calls: Cell<u32>,
    /// Whether it does what it is asked and says nothing.
    pub silent: Cell<bool>,
    /// How refunds go.
    pub refunding: Cell<Refunding>,
}

/// How refunds go.
#[derive(Clone, Copy, Default, PartialEq)]
pub enum Refunding {
    /// Taken; the provider calls back.
    #[default]
    Later,
    /// Done at once.
    AtOnce,
    /// Failed.
    Never,
}

impl Till {
    /// The id of an order's last session.
    pub fn session(&self, order_no: &str) -> String {
        let sessions = self.sessions.borrow();
        let (_, (session, _)) = sessions.iter().rfind(|((of, _), _)| of == order_no).expect("a session");
        session.clone()
    }

    /// An order's last session ends by itself.
    pub fn end(&self, order_no: &str) {
        let session = self.session(order_no);
        self.ended.borrow_mut().push(session);
    }

    /// The buyer pays at the provider's page.
    pub fn pay(&self, order_no: &str) {
        let mut sessions = self.sessions.borrow_mut();
        let (_, (session, payment)) = sessions.iter_mut().rfind(|((of, _), _)| of == order_no).expect("a session");
        *payment = Some(format!("pay-{order_no}"));
        assert!(!self.ended.borrow().contains(session), "an ended session cannot be paid");
    }

    fn answer<T>(&self, answer: T) -> Result<T, Unknown> {
        self.calls.set(self.calls.get() + 1);
        if self.silent.get() { Err(Unknown::new("silence")) } else { Ok(answer) }
    }
}

impl Provider for Till {
    async fn open(&self, order: &Order, attempt: i64) -> Result<Opened, Unknown> {
        let order_no = order.order_no.to_string();
        let mut sessions = self.sessions.borrow_mut();
        let fresh = (format!("cs-{order_no}-{attempt}"), None);
        let (session, _) = sessions.entry((order_no, attempt)).or_insert(fresh);
        self.answer(Opened { url: format!("https://till.example/{session}"), session: Some(session.clone()) })
    }

    async fn close(&self, session: &str) -> Result<Closed, Unknown> {
        let sessions = self.sessions.borrow();
        let (_, payment) = sessions.values().find(|(known, _)| known == session).expect("a session");
        self.answer(match payment {
            Some(payment) => Closed::Paid { payment: payment.clone(), money: Money::new(100, "EUR") },
            None => {
                if !self.ended.borrow().iter().any(|ended| ended == session) {
                    self.ended.borrow_mut().push(session.to_owned());
                }
                Closed::Unpaid
            }
        })
    }

    async fn refund(&self, refund: &Refund) -> Result<Refunded, Unknown> {
        let mut refunds = self.refunds.borrow_mut();
        let number = refunds.len();
        let known = refunds.entry((refund.payment.clone(), refund.failures));
        let id = known.or_insert_with(|| format!("re_{number}")).clone();
        self.answer(match self.refunding.get() {
            Refunding::Later => Refunded::Taken { refund: id },
            Refunding::AtOnce => Refunded::Done { refund: id },
            Refunding::Never => Refunded::Failed("the card is gone".to_owned()),
        })
    }
}
