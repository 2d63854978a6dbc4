//! Simulates robots and checks that none gets more than one unit.
//!
//! A robot is a user with one ticket who sends far more than one reservation: before the start with guessed start keys,
//! 200 times a second, with used and with forged tickets. Robots have connections of their own, so that honest buyers
//! compete with them in the app's queue and not for connections of this program.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::task::{JoinHandle, JoinSet};

use super::context::RunContext;
use super::observations::ObservedOrder;
use super::options::{Options, ROBOT_COUNT};
use super::order::drive_order;
use super::payment_mix::PaymentBehaviour;
use super::plan::{Intent, Visit};
use super::verdict::{CheckResult, Finding};
use super::visits::VisitReport;
use crate::http::Call;
use crate::meter::Step;
use crate::wire::Order;

/// How long robots send before and after the start.
const ACTIVE_BEFORE_START: Duration = Duration::from_secs(2);
const ACTIVE_AFTER_START: Duration = Duration::from_secs(8);

/// Adds a visit, and so a ticket, for each robot.
pub fn add_visits(visits: &mut Vec<Visit>, options: &Options) {
    let first = options.buyers as usize;
    visits.extend((first..first + ROBOT_COUNT).map(|buyer| Visit {
        buyer,
        sku: 0,
        quantity: 1,
        start_fraction: 0.0,
        intent: Intent::Leave,
        payment_behaviour: PaymentBehaviour::Normal,
        double_click: false,
    }));
}

pub struct Robots {
    tasks: JoinSet<()>,
    acceptances: AcceptancesByVisit,
}

type AcceptancesByVisit = Arc<Mutex<BTreeMap<usize, Acceptances>>>;

/// What the app accepted from one robot.
#[derive(Default)]
struct Acceptances {
    /// Order numbers, one for each `202`.
    order_nos: Vec<String>,
    /// By order number: the largest quantity that a `202` named, and the task that polls the order.
    orders: BTreeMap<String, (u32, JoinHandle<ObservedOrder>)>,
}

impl Robots {
    /// Starts the robots; they send around `starts_at`.
    pub fn start(run: &Arc<RunContext>, starts_at: Instant) -> Self {
        let robots: Vec<usize> = (0..run.visits.len()).filter(|index| run.is_robot(run.visits[*index].buyer)).collect();
        let (mut tasks, acceptances) = (JoinSet::new(), AcceptancesByVisit::default());
        let (single, group) = (robots[..1].to_vec(), robots[1..].to_vec());
        let from = starts_at.checked_sub(ACTIVE_BEFORE_START).unwrap_or(starts_at);
        let mut start_sender = |from: Instant, until: Instant, interval: u64, visits: &[usize], attack: Attack| {
            let interval = Duration::from_millis(interval);
            tasks.spawn(send(run.clone(), acceptances.clone(), [from, until], interval, visits.to_vec(), attack));
        };
        // Intervals in milliseconds: 200 requests a second from the single robot, 200 from the group, and a few others.
        start_sender(from, starts_at + ACTIVE_AFTER_START, 5, &single, Attack::Replay);
        start_sender(starts_at, starts_at + ACTIVE_AFTER_START, 5, &group, Attack::Replay);
        start_sender(from, starts_at, 10, &group, Attack::GuessedStartKey);
        start_sender(starts_at, starts_at + ACTIVE_AFTER_START, 50, &single, Attack::ChangedBody);
        start_sender(starts_at, starts_at + ACTIVE_AFTER_START, 20, &group, Attack::ForgedTicket);
        Self { tasks, acceptances }
    }

    /// Waits until all robots are done. Returns a report for each that got an order.
    pub async fn finish(mut self) -> Result<Vec<VisitReport>> {
        while self.tasks.join_next().await.is_some() {}
        let acceptances = std::mem::take(&mut *lock(&self.acceptances));
        let mut reports = Vec::with_capacity(acceptances.len());
        for (index, accepted) in acceptances {
            let mut orders = Vec::with_capacity(accepted.orders.len());
            for (quantity, order) in accepted.orders.into_values() {
                orders.push(ObservedOrder { quantity, ..order.await.context("a robot's task broke")? });
            }
            reports.push(VisitReport {
                index,
                order_nos: accepted.order_nos,
                outcome: "accepted (robot)".to_owned(),
                outcome_uncertain: false,
                refused: false,
                orders,
            });
        }
        Ok(reports)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Clone, Copy)]
enum Attack {
    /// The same reservation again.
    Replay,
    /// Before the start, with a guessed start key.
    GuessedStartKey,
    /// The ticket of an order with another quantity.
    ChangedBody,
    /// A ticket with a wrong signature (its characters are reversed).
    ForgedTicket,
}

/// Sends at a fixed rate (open loop): a slow app does not slow a robot down.
async fn send(
    run: Arc<RunContext>,
    acceptances: AcceptancesByVisit,
    [from, until]: [Instant; 2],
    interval: Duration,
    visits: Vec<usize>,
    attack: Attack,
) {
    let (mut in_flight, mut due) = (JoinSet::new(), from);
    for index in visits.into_iter().cycle() {
        due += interval;
        if due > until {
            break;
        }
        tokio::time::sleep_until(due.into()).await;
        while in_flight.try_join_next().is_some() {}
        // Without an order, another quantity is a valid reservation.
        if matches!(attack, Attack::ChangedBody) && !lock(&acceptances).contains_key(&index) {
            continue;
        }
        let call = attack_call(&run, index, attack);
        let (run, acceptances) = (run.clone(), acceptances.clone());
        in_flight.spawn(async move {
            let Ok(response) = run.app.send(Step::Robot, due, &call).await else { return };
            let Ok(Order { order_no, quantity, .. }) = response.parse() else { return };
            let mut acceptances = lock(&acceptances);
            let accepted = acceptances.entry(index).or_default();
            accepted.order_nos.push(order_no.clone());
            let (most, _) = accepted.orders.entry(order_no.clone()).or_insert_with(|| {
                let at = Instant::now();
                (quantity, tokio::spawn(async move { drive_order(&run, index, order_no, due, at).await }))
            });
            *most = quantity.max(*most);
        });
    }
    while in_flight.join_next().await.is_some() {}
}

fn attack_call(run: &RunContext, index: usize, attack: Attack) -> Call {
    let visit = &run.visits[index];
    let ticket = &run.tickets[index].ticket;
    let key = run.gate.borrow().start_key.clone().unwrap_or_else(|| "a-guess-of-22-letters-".to_owned());
    let (ticket, key, quantity) = match attack {
        Attack::Replay => (ticket.clone(), key, visit.quantity),
        Attack::GuessedStartKey => (ticket.clone(), format!("{:022}", fastrand::u64(..)), visit.quantity),
        Attack::ChangedBody => (ticket.clone(), key, visit.quantity + 1),
        Attack::ForgedTicket => (ticket.chars().rev().collect(), key, visit.quantity),
    };
    run.activity.reservation(visit.sku, quantity, &ticket, &key)
}

/// Checks that no robot got more units than one reservation has, however many requests it sent.
pub fn check(run: &RunContext, orders: &[ObservedOrder]) -> CheckResult {
    let first = run.options.buyers as usize;
    let robots: Vec<String> = (first..first + ROBOT_COUNT).map(|robot| run.user_id(robot)).collect();
    let units_of = |user: &String| -> i64 {
        orders.iter().filter(|order| order.user == *user).map(|order| i64::from(order.quantity)).sum()
    };
    let units: Vec<i64> = robots.iter().map(units_of).collect();
    let all: i64 = orders.iter().map(|order| i64::from(order.quantity)).sum();
    let (robot_units, most) = (units.iter().sum::<i64>(), units.iter().copied().max().unwrap_or_default());
    let finding = if most > 1 { Finding::Broken } else { Finding::Ok };
    CheckResult {
        id: "B2",
        promise: "no robot got more than one unit",
        finding,
        numbers: format!(
            "{robot_units} units for {ROBOT_COUNT} robots ({most} at most for one, {} for the one with 200 requests a \
             second), {} for {first} others",
            units.first().copied().unwrap_or_default(),
            all - robot_units,
        ),
    }
}
