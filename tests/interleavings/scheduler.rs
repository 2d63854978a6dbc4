//! Runs workflows one call at a time, so that a test decides the order of all calls to Redis, ledger and provider.
//!
//! A workflow's calls wait in its [`Process`] until the test answers them. Between two calls a workflow does nothing
//! that another can see: the order of the calls is the schedule.

pub mod explore;
pub mod plan;
pub mod sample;
pub mod stores;

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fmt::{self, Display},
    future::poll_fn,
    rc::Rc,
    task::{Context, Poll, Waker},
};

use ::stores::{
    Redis, Sql, StoreError,
    ports::{Dialect, RedisArg, RedisValue, SqlValue},
};
use domain::{money::Money, order::Order, time::Millis, webhook::PaymentProvider};
use futures::future::LocalBoxFuture;
use payments::{
    ledger::{refunds::Refund, sessions::DueSession},
    provider::{OpenedSession, Presentation, Provider, ProviderError, RefundStatus, SessionStatus},
};

use crate::stores::{script_name, summarize};

/// A call of a workflow to one of its ports.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Call {
    Redis(String, Vec<RedisArg>),
    Sql(String, Vec<SqlValue>),
    Provider(ProviderCall),
    /// Moves the clock of Redis on. Only checks wait.
    Wait(Millis),
}

/// A call to the payment provider. Its answer follows from its arguments and from what happened at the provider.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ProviderCall {
    Open { order_no: String, session_number: i64 },
    Close { session: String },
    Refund { payment: String, failures: i64 },
}

/// The answer to a [`Call`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reply {
    Redis(Result<Vec<RedisValue>, StoreError>),
    Sql(Result<Vec<Vec<SqlValue>>, StoreError>),
    Provider(Result<String, &'static str>),
    Waited,
}

impl Call {
    /// The answer of a store that timed out: the call may or may not have taken effect.
    pub fn timed_out(&self) -> Reply {
        match self {
            Self::Redis(..) => Reply::Redis(Err(StoreError::RedisUnavailable("timeout".to_owned()))),
            Self::Sql(..) => Reply::Sql(Err(StoreError::LedgerUnavailable("timeout".to_owned()))),
            Self::Provider(_) => Reply::Provider(Err("timeout")),
            Self::Wait(_) => Reply::Waited,
        }
    }
}

impl Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Redis(name, args) => match args.first().and_then(|script| script_name(script)) {
                Some(script) => write!(f, "redis     {script}.lua"),
                None => write!(f, "redis     {name}"),
            },
            Self::Sql(statement, _) => write!(f, "ledger    {}", summarize(statement)),
            Self::Provider(call) => write!(f, "provider  {call:?}"),
            Self::Wait(until) => write!(f, "until {until:?}"),
        }
    }
}

/// How a workflow ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// It reported success.
    Done,
    /// It reported that it changed nothing.
    Refused,
    /// It died or failed: its caller does not know what it did.
    Unknown,
}

/// The ports that a workflow under test calls. Clones share one queue of calls.
#[derive(Clone)]
pub struct Ports {
    dialect: Dialect,
    queue: Rc<RefCell<Queue>>,
}

#[derive(Default)]
struct Queue {
    next_id: usize,
    pending: BTreeMap<usize, Call>,
    replies: BTreeMap<usize, Reply>,
    wakers: Vec<Waker>,
}

impl Ports {
    async fn call(&self, call: Call) -> Reply {
        let id = {
            let mut queue = self.queue.borrow_mut();
            let id = queue.next_id;
            queue.next_id += 1;
            queue.pending.insert(id, call);
            id
        };
        poll_fn(|context| {
            let mut queue = self.queue.borrow_mut();
            match queue.replies.remove(&id) {
                Some(reply) => Poll::Ready(reply),
                None => {
                    queue.wakers.push(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Moves the clock of Redis on.
    pub async fn wait(&self, until: Millis) {
        self.call(Call::Wait(until)).await;
    }

    async fn ask_provider(&self, call: ProviderCall) -> Result<String, ProviderError> {
        let Reply::Provider(reply) = self.call(Call::Provider(call)).await else { panic!("not the provider's answer") };
        reply.map_err(ProviderError::new)
    }
}

impl Redis for Ports {
    async fn command(&self, name: &str, args: Vec<RedisArg>) -> Result<Vec<RedisValue>, StoreError> {
        let Reply::Redis(reply) = self.call(Call::Redis(name.to_owned(), args)).await else { panic!("not Redis") };
        reply
    }
}

impl Sql for Ports {
    fn dialect(&self) -> Dialect {
        self.dialect
    }

    async fn run(&self, statement: &str, params: Vec<SqlValue>) -> Result<Vec<Vec<SqlValue>>, StoreError> {
        let Reply::Sql(reply) = self.call(Call::Sql(statement.to_owned(), params)).await else {
            panic!("not the ledger's answer")
        };
        reply
    }
}

impl Provider for Ports {
    fn name(&self) -> PaymentProvider {
        PaymentProvider::Stripe
    }

    async fn open_session(
        &self,
        order: &Order,
        session_number: i64,
        _: &Presentation,
    ) -> Result<OpenedSession, ProviderError> {
        let call = ProviderCall::Open { order_no: order.order_no.to_string(), session_number };
        let session = self.ask_provider(call).await?;
        Ok(OpenedSession { url: format!("https://provider.example/{session}"), session_id: session })
    }

    async fn close_session(&self, due: &DueSession) -> Result<SessionStatus, ProviderError> {
        let payment = self.ask_provider(ProviderCall::Close { session: due.id.clone() }).await?;
        Ok(match payment.as_str() {
            "" => SessionStatus::Unpaid,
            _ => SessionStatus::Paid {
                payment_id: payment,
                money: Money::new(100, "EUR"),
                sealed_address: String::new(),
            },
        })
    }

    async fn refund(&self, refund: &Refund) -> Result<RefundStatus, ProviderError> {
        let call = ProviderCall::Refund { payment: refund.payment.clone(), failures: refund.failures };
        Ok(RefundStatus::Succeeded { refund_id: self.ask_provider(call).await? })
    }
}

/// A running workflow.
pub struct Process<T> {
    ports: Ports,
    future: LocalBoxFuture<'static, T>,
    /// Its result, once it has ended.
    pub result: Option<T>,
}

impl<T> Process<T> {
    /// Starts a workflow and runs it up to its first calls.
    pub fn start(dialect: Dialect, workflow: impl FnOnce(Ports) -> LocalBoxFuture<'static, T>) -> Self {
        let ports = Ports { dialect, queue: Rc::default() };
        let mut process = Self { future: workflow(ports.clone()), ports, result: None };
        process.poll();
        process
    }

    /// The calls that wait for an answer, by number in the order of issue.
    pub fn pending(&self) -> BTreeMap<usize, Call> {
        self.ports.queue.borrow().pending.clone()
    }

    /// Answers a call, and runs the workflow up to its next calls or its end.
    pub fn answer(&mut self, id: usize, reply: Reply) {
        let wakers = {
            let mut queue = self.ports.queue.borrow_mut();
            queue.pending.remove(&id).expect("a call that waits");
            queue.replies.insert(id, reply);
            std::mem::take(&mut queue.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
        self.poll();
    }

    fn poll(&mut self) {
        match self.future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => self.result = Some(result),
            Poll::Pending => {
                assert!(!self.ports.queue.borrow().pending.is_empty(), "a workflow waits, and not for a call");
            }
        }
    }
}
