//! Property test of the line (H1; I8, I9): random steps, after each of which the line, in its order, and every order are
//! those of a small model.

use std::collections::BTreeMap;

use domain::{
    activity::{ActivityState, LineMode},
    ids::UserId,
    order::OrderStatus::{self, Cancelled, Expired, Paid, PendingPayment, Queued, Refunding, Waiting},
};
use orders::status::load_order_of;
use proptest::{prelude::*, test_runner::Config};
use sale::line::{self, Leaver};
use stores::reply::Reply;
use support::fixture::WHOLE_REBUILD;

use crate::fixture::{LEDGERS, RealFixture, Services, completed, new_fixture, sweeper};

const USERS: [&str; 6] = ["ada", "bob", "cyd", "dee", "eve", "fay"];
const PER_USER: usize = 2;
const MAX_WAITING: usize = 3;

/// One step of a random run. A ticket belongs to the user of its number.
#[derive(Debug, Clone)]
enum Step {
    Reserve(u64),
    Write,
    Cancel(u64),
    Leave(u64),
    Pay(u64),
    Expire,
    Restock,
    Pause,
    Resume,
    Ban(usize),
    Rebuild,
    Sweep,
}
use Step::{Ban, Cancel, Expire, Leave, Pause, Pay, Rebuild, Reserve, Restock, Resume, Sweep, Write};

fn step() -> impl Strategy<Value = Step> {
    let ticket = || 0..24_u64;
    prop_oneof![
        8 => ticket().prop_map(Reserve),
        4 => Just(Write),
        3 => ticket().prop_map(Cancel),
        2 => ticket().prop_map(Leave),
        2 => ticket().prop_map(Pay),
        1 => Just(Step::Expire),
        1 => Just(Restock),
        1 => Just(Pause),
        3 => Just(Resume),
        1 => (0..USERS.len()).prop_map(Ban),
        1 => Just(Rebuild),
        1 => Just(Sweep),
    ]
}

fn user_of(ticket: u64) -> usize {
    ticket as usize % USERS.len()
}

#[derive(Default)]
struct Model {
    total: usize,
    is_paused: bool,
    banned: Vec<usize>,
    /// By ticket, also of entries.
    orders: BTreeMap<u64, OrderStatus>,
    /// The tickets that wait.
    line: Vec<u64>,
}

impl Model {
    fn live(&self, user: Option<usize>) -> usize {
        let is_live = |(ticket, status): &(&u64, &OrderStatus)| {
            matches!(status, Queued | PendingPayment | Paid) && user.is_none_or(|user| user_of(**ticket) == user)
        };
        self.orders.iter().filter(is_live).count()
    }

    fn left(&self) -> usize {
        self.total - self.live(None)
    }

    fn reserve(&mut self, ticket: u64) {
        let user = user_of(ticket);
        let waits = self.line.iter().any(|other| user_of(*other) == user);
        if self.is_paused
            || self.banned.contains(&user)
            || self.orders.contains_key(&ticket)
            || self.live(Some(user)) >= PER_USER
        {
            return;
        }
        if self.left() > 0 && self.line.is_empty() {
            self.orders.insert(ticket, Queued);
        } else if !waits && self.line.len() < MAX_WAITING {
            self.orders.insert(ticket, Waiting);
            self.line.push(ticket);
        }
    }

    /// Offers what is left.
    fn serve(&mut self) {
        while !self.is_paused && self.left() > 0 && !self.line.is_empty() {
            let ticket = self.line.remove(0);
            let user = user_of(ticket);
            let may = !self.banned.contains(&user) && self.live(Some(user)) < PER_USER;
            self.orders.insert(ticket, if may { Queued } else { Cancelled });
        }
    }

    fn replace(&mut self, from: OrderStatus, to: OrderStatus) {
        self.orders.values_mut().filter(|status| **status == from).for_each(|status| *status = to);
    }

    fn step(&mut self, step: &Step) {
        let status = |model: &Self, ticket| model.orders.get(ticket).copied();
        match step {
            Reserve(ticket) => self.reserve(*ticket),
            Write | Rebuild => self.replace(Queued, PendingPayment),
            Cancel(ticket) if status(self, ticket) == Some(PendingPayment) => {
                self.orders.insert(*ticket, Cancelled);
            }
            Leave(ticket) if status(self, ticket) == Some(Waiting) => {
                self.orders.insert(*ticket, Cancelled);
                self.line.retain(|other| other != ticket);
            }
            Pay(ticket) => match status(self, ticket) {
                Some(PendingPayment) => drop(self.orders.insert(*ticket, Paid)),
                // I8: what is left belongs to the line.
                Some(Expired) => {
                    let fits = self.left() > 0 && self.line.is_empty() && self.live(Some(user_of(*ticket))) < PER_USER;
                    self.orders.insert(*ticket, if fits { Paid } else { Refunding });
                }
                _ => {}
            },
            Expire => self.replace(PendingPayment, Expired),
            Restock => self.total += 1,
            Pause => self.is_paused = true,
            Resume => self.is_paused = false,
            Ban(user) => self.banned.push(*user),
            _ => {}
        }
        self.serve();
        if matches!(step, Rebuild | Sweep) {
            self.replace(Queued, PendingPayment);
        }
    }
}

async fn perform(fixture: &RealFixture, step: &Step, paused: bool) {
    match step {
        Reserve(ticket) => {
            fixture.reserve(*ticket, USERS[user_of(*ticket)], 1).await.unwrap();
        }
        Write => while fixture.write_batch().await.unwrap().messages > 0 {},
        Cancel(ticket) => drop(fixture.cancel(&fixture.order_no(*ticket)).await.unwrap()),
        Leave(ticket) => {
            if let Some(entry) = find(fixture, *ticket).await.filter(|(status, _)| *status == Waiting) {
                line::leave(&fixture.redis, &entry.1, Leaver::Buyer).await.unwrap();
            }
        }
        // A provider sends no callback for an order that is not in the ledger yet.
        Pay(ticket) => {
            let status = fixture.ledger_status(&fixture.order_no(*ticket)).await;
            if matches!(status, Some(PendingPayment | Expired)) {
                fixture.payment_succeeded(&fixture.order_no(*ticket), "e").await.unwrap();
            }
        }
        Expire => drop(fixture.expire_orders().await.unwrap()),
        Restock => drop(fixture.restock(1).await),
        Pause => drop(fixture.set_state(ActivityState::Paused).await),
        Resume => drop(fixture.set_state(ActivityState::Published).await),
        Ban(user) => {
            fixture.run_redis(&["SET", &fixture.key(&format!("ban:user:{}", USERS[*user])), "1"]).await;
        }
        Rebuild => {
            fixture.set_state(ActivityState::Paused).await;
            fixture.rebuild(WHOLE_REBUILD).await.unwrap();
            if !paused {
                fixture.set_state(ActivityState::Published).await;
            }
            fixture.recover().await;
        }
        Sweep => {
            let (services, clock) = (Services::accepting(), || crate::fixture::NOW);
            completed(sweeper((&fixture.redis, &fixture.sql), &services, &clock).run(crate::fixture::NOW).await);
            fixture.recover().await;
        }
    }
}

async fn find(fixture: &RealFixture, ticket: u64) -> Option<(OrderStatus, domain::order::Order)> {
    let user = UserId::parse(USERS[user_of(ticket)]).unwrap();
    let order = load_order_of(&fixture.redis, &fixture.order_no(ticket), &user).await.unwrap().order?;
    Some((order.status, order))
}

#[test]
fn any_sequence_of_steps_serves_the_line_as_the_model_does() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for ledger in LEDGERS {
        let cases = if ledger == "sqlite" { 60 } else { 20 };
        proptest!(Config { cases, failure_persistence: None, ..Config::default() },
            |(total in 1..3_usize, steps in prop::collection::vec(step(), 10..40))| {
                runtime.block_on(async {
                    let fixture = new_fixture(ledger, total as i64, PER_USER as i64).await;
                    let on = |spec: &mut domain::activity::ActivitySpec| {
                        (spec.line.mode, spec.line.max_units) = (LineMode::Waitlist, Some(MAX_WAITING as i64));
                    };
                    fixture.change_spec(on).await;
                    let mut model = Model { total, ..Model::default() };
                    for (index, step) in steps.iter().enumerate() {
                        perform(&fixture, step, model.is_paused).await;
                        model.step(step);
                        let context = || format!("{ledger}, after step {index} {step:?} of {steps:?}");
                        assert_eq!(fixture.units().await.0, model.left() as i64, "{}", context());
                        let line = fixture.run_redis(&["ZRANGE", &fixture.key("line:phone"), "0", "-1"]).await;
                        let mut line = Reply::new(line);
                        let expected: Vec<_> = model.line.iter().map(|ticket| USERS[user_of(*ticket)]).collect();
                        let mut found = Vec::new();
                        while line.remaining() > 0 {
                            found.push(line.text().unwrap());
                        }
                        assert_eq!(found, expected, "{}", context());
                        for (ticket, status) in &model.orders {
                            let seen = find(&fixture, *ticket).await.map(|(status, _)| status);
                            assert_eq!(seen, Some(*status), "ticket {ticket}, {}", context());
                        }
                    }
                });
            }
        );
    }
}

#[test]
fn the_model_serves_the_first_in_line() {
    let mut model = Model { total: 1, ..Model::default() };
    for step in [Reserve(0), Reserve(1), Reserve(2), Write, Cancel(0)] {
        model.step(&step);
    }
    assert_eq!((model.orders[&1], model.line), (Queued, vec![2]));
}
