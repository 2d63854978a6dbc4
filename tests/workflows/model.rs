//! Random lives of a sale against a model of ten lines: after each step the real stores agree with it.

use std::collections::BTreeMap;

use domain::order::Status;
use proptest::{prelude::*, test_runner::Config};

use crate::fixture::{LEDGERS, World, world};

const USERS: [&str; 4] = ["ada", "bob", "cyd", "dee"];
const PER_USER: i64 = 3;

/// What may happen next.
#[derive(Debug, Clone)]
enum Step {
    Reserve { ticket: u64, user: usize, quantity: i64 },
    Write,
    Pay { ticket: u64, event: u8 },
    Cancel { ticket: u64 },
    Expire,
    AskRefund { ticket: u64 },
    Refunded { ticket: u64, event: u8 },
    Restock { by: i64 },
    Recover,
}

fn step() -> impl Strategy<Value = Step> {
    let ticket = 0..8_u64;
    prop_oneof![
        5 => (ticket.clone(), 0..USERS.len(), 1..=3_i64).prop_map(|(ticket, user, quantity)| {
            // A ticket is bound to its user.
            Step::Reserve { ticket: ticket * 4 + user as u64, user, quantity }
        }),
        3 => Just(Step::Write),
        3 => (0..32_u64, 0..2_u8).prop_map(|(ticket, event)| Step::Pay { ticket, event }),
        2 => (0..32_u64).prop_map(|ticket| Step::Cancel { ticket }),
        1 => Just(Step::Expire),
        1 => (0..32_u64).prop_map(|ticket| Step::AskRefund { ticket }),
        1 => (0..32_u64, 0..2_u8).prop_map(|(ticket, event)| Step::Refunded { ticket, event }),
        1 => (-2..=2_i64).prop_filter("0 is no restock", |by| *by != 0).prop_map(|by| Step::Restock { by }),
        1 => Just(Step::Recover),
    ]
}

/// The model: a total, and orders with a status.
#[derive(Default)]
struct Model {
    total: i64,
    orders: BTreeMap<u64, (usize, i64, Status, bool)>,
}

impl Model {
    fn live(&self, of: impl Fn(&(usize, i64, Status, bool)) -> bool) -> i64 {
        self.orders.values().filter(|order| order.3 && of(order)).map(|order| order.1).sum()
    }

    fn left(&self) -> i64 {
        self.total - self.live(|_| true)
    }

    fn fits(&self, user: usize, quantity: i64) -> bool {
        self.left() >= quantity && self.live(|order| order.0 == user) + quantity <= PER_USER
    }

    fn set(&mut self, ticket: u64, status: Status, live: bool) {
        if let Some(order) = self.orders.get_mut(&ticket) {
            (order.2, order.3) = (status, live);
        }
    }

    /// Units held and sold.
    fn units(&self) -> (i64, i64, i64) {
        let held = self.live(|order| matches!(order.2, Status::Queued | Status::PendingPayment));
        (self.left(), held, self.live(|_| true) - held)
    }

    fn step(&mut self, step: &Step) {
        let status = |model: &Self, ticket: &u64| model.orders.get(ticket).map(|order| order.2);
        match step {
            Step::Reserve { ticket, user, quantity }
                if !self.orders.contains_key(ticket) && self.fits(*user, *quantity) =>
            {
                self.orders.insert(*ticket, (*user, *quantity, Status::Queued, true));
            }
            Step::Write | Step::Recover => {
                for order in self.orders.values_mut().filter(|order| order.2 == Status::Queued) {
                    order.2 = Status::PendingPayment;
                }
            }
            Step::Pay { ticket, .. } => match status(self, ticket) {
                Some(Status::PendingPayment) => self.set(*ticket, Status::Paid, true),
                Some(Status::Cancelled | Status::Expired) => {
                    let (user, quantity, ..) = self.orders[ticket];
                    let fits = self.fits(user, quantity);
                    self.set(*ticket, if fits { Status::Paid } else { Status::Refunding }, fits);
                }
                _ => {}
            },
            Step::Cancel { ticket } if status(self, ticket) == Some(Status::PendingPayment) => {
                self.set(*ticket, Status::Cancelled, false);
            }
            Step::Expire => {
                for order in self.orders.values_mut().filter(|order| order.2 == Status::PendingPayment) {
                    (order.2, order.3) = (Status::Expired, false);
                }
            }
            Step::AskRefund { ticket } if status(self, ticket) == Some(Status::Paid) => {
                self.set(*ticket, Status::Refunding, true);
            }
            Step::Refunded { ticket, .. } if status(self, ticket) == Some(Status::Refunding) => {
                self.set(*ticket, Status::Refunded, false);
            }
            Step::Restock { by } if self.left() + by >= 0 => self.total += by,
            _ => {}
        }
    }
}

type Real = World<crate::stores::RealRedis, crate::stores::RealLedger>;

async fn perform(world: &Real, step: &Step) {
    match step {
        Step::Reserve { ticket, user, quantity } => {
            world.reserve(*ticket, USERS[*user], *quantity).await.unwrap();
        }
        Step::Write => {
            world.write().await.unwrap();
        }
        // A provider has nothing to say of an order that cannot be paid yet.
        Step::Pay { ticket, event } => {
            if world.status(&world.order_no(*ticket)).await.is_some() {
                world.paid(&world.order_no(*ticket), &format!("e{event}")).await.unwrap();
            }
        }
        Step::Cancel { ticket } => {
            world.cancel(&world.order_no(*ticket)).await.unwrap();
        }
        Step::Expire => {
            world.expire().await.unwrap();
        }
        Step::AskRefund { ticket } => {
            world.ask_refund(&world.order_no(*ticket)).await.unwrap();
        }
        Step::Refunded { ticket, event } => {
            if world.status(&world.order_no(*ticket)).await == Some(Status::Refunding) {
                world.money_back(&world.order_no(*ticket), &format!("r{event}")).await.unwrap();
            }
        }
        Step::Restock { by } => {
            world.desk().restock(&world.activity, &world.sku, *by, None).await.unwrap();
        }
        Step::Recover => world.recover().await,
    }
}

#[test]
fn any_life_of_a_sale_agrees_with_the_model() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for ledger in LEDGERS {
        let cases = if ledger == "sqlite" { 120 } else { 40 };
        proptest!(Config { cases, failure_persistence: None, ..Config::default() },
            |(total in 1..8_i64, steps in prop::collection::vec(step(), 1..40))| {
                runtime.block_on(async {
                    let world = world(ledger, total, PER_USER).await;
                    let mut model = Model { total, ..Model::default() };
                    for (at, step) in steps.iter().enumerate() {
                        perform(&world, step).await;
                        model.step(step);
                        let said = || format!("{ledger}, after step {at} {step:?} of {steps:?}");
                        assert_eq!(world.units().await, model.units(), "{}", said());
                        for (ticket, order) in &model.orders {
                            let order_no = world.order_no(*ticket);
                            assert_eq!(world.hot_status(&order_no).await, Some(order.2), "ticket {ticket}, {}", said());
                            if order.2 != Status::Queued {
                                assert_eq!(world.status(&order_no).await, Some(order.2), "ticket {ticket}, {}", said());
                            }
                        }
                    }
                });
            }
        );
    }
}

#[test]
fn the_model_is_not_asleep() {
    let mut model = Model { total: 1, ..Model::default() };
    model.step(&Step::Reserve { ticket: 0, user: 0, quantity: 1 });
    assert_eq!(model.units(), (0, 1, 0));
    model.step(&Step::Write);
    model.step(&Step::Pay { ticket: 0, event: 0 });
    assert_eq!(model.units(), (0, 0, 1));
}
