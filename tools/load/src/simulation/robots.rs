//! Robots among the crowd: what they try, and what they got by it.
//!
//! A robot is a user with one ticket, like anybody, and sends much more than one wish: before the start with guessed
//! keys, two hundred times a second, with used and with forged tickets. All of it goes through sockets of
//! its own: honest buyers stand in the app's queue with them, not in this program's.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use serde_json::json;
use tokio::task::{JoinHandle, JoinSet};

use super::observations::OrderSeen;
use super::options::Options;
use super::order::follow;
use super::payment_mix::Manner;
use super::plan::{Intent, Visit};
use super::rush::VisitReport;
use super::session::Session;
use super::verdict::{Finding, Line};
use crate::http::Call;
use crate::meter::Step;
use crate::wire::Order;

/// Robots: one that hammers, and a hundred behind one address.
pub const ROBOTS: usize = 101;

/// What they do before the start and after it, at most.
const BEFORE: Duration = Duration::from_secs(2);
const AFTER: Duration = Duration::from_secs(8);

/// Adds a visit, and so a ticket, for each robot.
pub fn join(visits: &mut Vec<Visit>, options: &Options) {
    let first = options.buyers as usize;
    visits.extend((first..first + ROBOTS).map(|buyer| Visit {
        buyer,
        sku: 0,
        quantity: 1,
        moment: 0.0,
        intent: Intent::Leave,
        manner: Manner::Plain,
        doubled: false,
    }));
}

/// Robots at work.
pub struct Swarm {
    tasks: JoinSet<()>,
    wins: Wins,
}

/// What each robot got, and who follows it.
type Wins = Arc<Mutex<BTreeMap<usize, JoinHandle<OrderSeen>>>>;

impl Swarm {
    /// Lets them loose around the moment of the start.
    pub fn start(session: &Arc<Session>, starts: Instant) -> Self {
        let robots: Vec<usize> =
            (0..session.visits.len()).filter(|index| session.is_robot(session.visits[*index].buyer)).collect();
        let (mut tasks, wins) = (JoinSet::new(), Wins::default());
        let (hammer, neighbours) = (robots[..1].to_vec(), robots[1..].to_vec());
        let from = starts.checked_sub(BEFORE).unwrap_or(starts);
        let mut add = |from: Instant, until: Instant, each: u64, who: &[usize], trick: Trick| {
            let each = Duration::from_millis(each);
            tasks.spawn(send(session.clone(), wins.clone(), [from, until], each, who.to_vec(), trick));
        };
        // One user, two hundred a second; a hundred users, as many; the rest is noise.
        add(from, starts + AFTER, 5, &hammer, Trick::Again);
        add(starts, starts + AFTER, 5, &neighbours, Trick::Again);
        add(from, starts, 10, &neighbours, Trick::Early);
        add(starts, starts + AFTER, 50, &hammer, Trick::OtherBody);
        add(starts, starts + AFTER, 20, &neighbours, Trick::Forged);
        Self { tasks, wins }
    }

    /// Waits for them to be done, and tells what they got.
    pub async fn end(mut self) -> Result<Vec<VisitReport>> {
        while self.tasks.join_next().await.is_some() {}
        let wins = std::mem::take(&mut *lock(&self.wins));
        let mut reports = Vec::with_capacity(wins.len());
        for (index, order) in wins {
            let order = order.await.context("a robot's task broke")?;
            let (answers, outcome) = (vec![order.order_no.clone()], "accepted (robot)".to_owned());
            reports.push(VisitReport { index, answers, outcome, lost: false, refused: false, order: Some(order) });
        }
        Ok(reports)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Clone, Copy)]
enum Trick {
    /// The same wish once more.
    Again,
    /// Before the start, with a guess for a key.
    Early,
    /// A used ticket for something else.
    OtherBody,
    /// A ticket with a changed signature.
    Forged,
}

/// Sends open-loop: a slow app does not slow a robot.
async fn send(
    session: Arc<Session>,
    wins: Wins,
    [from, until]: [Instant; 2],
    each: Duration,
    who: Vec<usize>,
    trick: Trick,
) {
    let (mut flying, mut due) = (JoinSet::new(), from);
    for index in who.into_iter().cycle() {
        due += each;
        if due > until {
            break;
        }
        tokio::time::sleep_until(due.into()).await;
        while flying.try_join_next().is_some() {}
        let call = call(&session, index, trick);
        let (session, wins) = (session.clone(), wins.clone());
        flying.spawn(async move {
            let Ok(answer) = session.app.once(Step::Robot, due, &call).await else { return };
            let Ok(Order { order_no, .. }) = answer.parse() else { return };
            // The first answer tells of an order; all later ones repeat it.
            lock(&wins).entry(index).or_insert_with(|| {
                let at = Instant::now();
                tokio::spawn(async move { follow(&session, index, order_no, due, at).await })
            });
        });
    }
    while flying.join_next().await.is_some() {}
}

fn call(session: &Session, index: usize, trick: Trick) -> Call {
    let visit = &session.visits[index];
    let ticket = &session.passes[index].ticket;
    let key = session.gate.borrow().start_key.clone().unwrap_or_else(|| "a-guess-of-22-letters-".to_owned());
    let (ticket, key, quantity) = match trick {
        Trick::Again => (ticket.clone(), key, visit.quantity),
        Trick::Early => (ticket.clone(), format!("{:022}", fastrand::u64(..)), visit.quantity),
        Trick::OtherBody => (ticket.clone(), key, visit.quantity + 1),
        Trick::Forged => (ticket.chars().rev().collect(), key, visit.quantity),
    };
    let body = json!({"sku": session.terms.skus[visit.sku], "quantity": quantity, "ticket": ticket, "start_key": key});
    Call { body: Bytes::from(body.to_string()), ..Call::post(session.terms.path("/orders"), &serde_json::Value::Null) }
}

/// Judges what they got: no more than an honest buyer may have, however much they sent.
pub fn judge(session: &Session, orders: &[OrderSeen]) -> Line {
    let first = session.options.buyers as usize;
    let robots: Vec<String> = (first..first + ROBOTS).map(|robot| session.user(robot)).collect();
    let units_of = |user: &String| -> i64 {
        orders.iter().filter(|order| order.user == *user).map(|order| i64::from(order.quantity)).sum()
    };
    let units: Vec<i64> = robots.iter().map(units_of).collect();
    let all: i64 = orders.iter().map(|order| i64::from(order.quantity)).sum();
    let (theirs, most) = (units.iter().sum::<i64>(), units.iter().copied().max().unwrap_or_default());
    let finding = if most > 1 { Finding::Broken } else { Finding::Ok };
    Line {
        id: "B4",
        promise: "a robot gets no more than one wish is worth",
        finding,
        numbers: format!(
            "{theirs} units for {ROBOTS} robots ({most} at most for one, {} for the hammering one), {} for {first} others",
            units.first().copied().unwrap_or_default(),
            all - theirs,
        ),
    }
}
