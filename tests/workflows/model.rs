//! Property test: random steps on an activity, compared with a small model after each step.

use std::collections::BTreeMap;

use domain::order::OrderStatus;
use proptest::{prelude::*, test_runner::Config};

use crate::fixture::{LEDGERS, RealFixture, new_fixture};

const USERS: [&str; 4] = ["ada", "bob", "cyd", "dee"];
const PER_USER: i64 = 3;

/// One step of a random run.
#[derive(Debug, Clone)]
enum Step {
    Reserve { ticket: u64, user: usize, quantity: i64 },
    Write,
    Pay { ticket: u64, event: u8 },
    Cancel { ticket: u64 },
    Expire,
    RequestRefund { ticket: u64 },
    RefundSucceeded { ticket: u64, event: u8 },
    Restock { by: i64 },
    Recover,
}

fn step() -> impl Strategy<Value = Step> {
    let ticket = 0..8_u64;
    prop_oneof![
        5 => (ticket.clone(), 0..USERS.len(), 1..=3_i64).prop_map(|(ticket, user, quantity)| {
            // Each ticket number belongs to one user.
            Step::Reserve { ticket: ticket * 4 + user as u64, user, quantity }
        }),
        3 => Just(Step::Write),
        3 => (0..32_u64, 0..2_u8).prop_map(|(ticket, event)| Step::Pay { ticket, event }),
        2 => (0..32_u64).prop_map(|ticket| Step::Cancel { ticket }),
        1 => Just(Step::Expire),
        1 => (0..32_u64).prop_map(|ticket| Step::RequestRefund { ticket }),
        1 => (0..32_u64, 0..2_u8).prop_map(|(ticket, event)| Step::RefundSucceeded { ticket, event }),
        1 => (-2..=2_i64).prop_filter("0 is no restock", |by| *by != 0).prop_map(|by| Step::Restock { by }),
        1 => Just(Step::Recover),
    ]
}

/// The model: the SKU's total, and each order's user, quantity, status and whether it is live.
#[derive(Default)]
struct Model {
    total: i64,
    orders: BTreeMap<u64, (usize, i64, OrderStatus, bool)>,
}

impl Model {
    fn live_units(&self, filter: impl Fn(&(usize, i64, OrderStatus, bool)) -> bool) -> i64 {
        self.orders.values().filter(|order| order.3 && filter(order)).map(|order| order.1).sum()
    }

    fn left(&self) -> i64 {
        self.total - self.live_units(|_| true)
    }

    fn has_room(&self, user: usize, quantity: i64) -> bool {
        self.left() >= quantity && self.live_units(|order| order.0 == user) + quantity <= PER_USER
    }

    fn set(&mut self, ticket: u64, status: OrderStatus, live: bool) {
        if let Some(order) = self.orders.get_mut(&ticket) {
            (order.2, order.3) = (status, live);
        }
    }

    /// Left, held and sold units.
    fn units(&self) -> (i64, i64, i64) {
        let held = self.live_units(|order| matches!(order.2, OrderStatus::Queued | OrderStatus::PendingPayment));
        (self.left(), held, self.live_units(|_| true) - held)
    }

    fn step(&mut self, step: &Step) {
        let status = |model: &Self, ticket: &u64| model.orders.get(ticket).map(|order| order.2);
        match step {
            Step::Reserve { ticket, user, quantity }
                if !self.orders.contains_key(ticket) && self.has_room(*user, *quantity) =>
            {
                self.orders.insert(*ticket, (*user, *quantity, OrderStatus::Queued, true));
            }
            Step::Write | Step::Recover => {
                for order in self.orders.values_mut().filter(|order| order.2 == OrderStatus::Queued) {
                    order.2 = OrderStatus::PendingPayment;
                }
            }
            Step::Pay { ticket, .. } => match status(self, ticket) {
                Some(OrderStatus::PendingPayment) => self.set(*ticket, OrderStatus::Paid, true),
                Some(OrderStatus::Cancelled | OrderStatus::Expired) => {
                    let (user, quantity, ..) = self.orders[ticket];
                    let fits = self.has_room(user, quantity);
                    self.set(*ticket, if fits { OrderStatus::Paid } else { OrderStatus::Refunding }, fits);
                }
                _ => {}
            },
            Step::Cancel { ticket } if status(self, ticket) == Some(OrderStatus::PendingPayment) => {
                self.set(*ticket, OrderStatus::Cancelled, false);
            }
            Step::Expire => {
                for order in self.orders.values_mut().filter(|order| order.2 == OrderStatus::PendingPayment) {
                    (order.2, order.3) = (OrderStatus::Expired, false);
                }
            }
            Step::RequestRefund { ticket } if status(self, ticket) == Some(OrderStatus::Paid) => {
                self.set(*ticket, OrderStatus::Refunding, true);
            }
            Step::RefundSucceeded { ticket, .. } if status(self, ticket) == Some(OrderStatus::Refunding) => {
                self.set(*ticket, OrderStatus::Refunded, false);
            }
            Step::Restock { by } if self.left() + by >= 0 => self.total += by,
            _ => {}
        }
    }
}

async fn perform(fixture: &RealFixture, step: &Step) {
    match step {
        Step::Reserve { ticket, user, quantity } => {
            fixture.reserve(*ticket, USERS[*user], *quantity).await.unwrap();
        }
        Step::Write => {
            fixture.write_batch().await.unwrap();
        }
        // A provider sends no callback for an order that is not in the ledger yet.
        Step::Pay { ticket, event } => {
            if fixture.ledger_status(&fixture.order_no(*ticket)).await.is_some() {
                fixture.payment_succeeded(&fixture.order_no(*ticket), &format!("e{event}")).await.unwrap();
            }
        }
        Step::Cancel { ticket } => {
            fixture.cancel(&fixture.order_no(*ticket)).await.unwrap();
        }
        Step::Expire => {
            fixture.expire_orders().await.unwrap();
        }
        Step::RequestRefund { ticket } => {
            fixture.request_refund(&fixture.order_no(*ticket)).await.unwrap();
        }
        Step::RefundSucceeded { ticket, event } => {
            if fixture.ledger_status(&fixture.order_no(*ticket)).await == Some(OrderStatus::Refunding) {
                fixture.refund_succeeded(&fixture.order_no(*ticket), &format!("r{event}")).await.unwrap();
            }
        }
        Step::Restock { by } => {
            fixture.restock(*by).await;
        }
        Step::Recover => fixture.recover().await,
    }
}

#[test]
fn any_sequence_of_steps_agrees_with_the_model() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for ledger in LEDGERS {
        let cases = if ledger == "sqlite" { 120 } else { 40 };
        proptest!(Config { cases, failure_persistence: None, ..Config::default() },
            |(total in 1..8_i64, steps in prop::collection::vec(step(), 1..40))| {
                runtime.block_on(async {
                    let fixture = new_fixture(ledger, total, PER_USER).await;
                    let mut model = Model { total, ..Model::default() };
                    for (index, step) in steps.iter().enumerate() {
                        perform(&fixture, step).await;
                        model.step(step);
                        let context = || format!("{ledger}, after step {index} {step:?} of {steps:?}");
                        assert_eq!(fixture.units().await, model.units(), "{}", context());
                        for (ticket, order) in &model.orders {
                            let (order_no, status) = (fixture.order_no(*ticket), order.2);
                            let seen = (fixture.redis_status(&order_no).await, fixture.ledger_status(&order_no).await);
                            let expected = (Some(status), (status != OrderStatus::Queued).then_some(status));
                            assert_eq!(seen, expected, "ticket {ticket}, {}", context());
                        }
                    }
                });
            }
        );
    }
}

#[test]
fn the_model_counts_held_and_sold_units() {
    let mut model = Model { total: 1, ..Model::default() };
    model.step(&Step::Reserve { ticket: 0, user: 0, quantity: 1 });
    assert_eq!(model.units(), (0, 1, 0));
    model.step(&Step::Write);
    model.step(&Step::Pay { ticket: 0, event: 0 });
    assert_eq!(model.units(), (0, 0, 1));
}
