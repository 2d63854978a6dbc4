//! Runs one random schedule of some workflows.

use std::{collections::HashSet, rc::Rc};

use fastrand::Rng;

use super::{
    Call, Outcome, Process,
    plan::{Ending, Event, Plan},
    stores::{Facts, Keys, MAX_CALLS, Stores},
};

/// One of this many calls meets a fault, as long as faults are left.
const FAULT_RATE: usize = 25;

/// Runs the schedule that `rng` chooses, from the present state of the ledger and from `start`, and checks how it ends.
/// Undoes what it did in the ledger. An end that is in `checked` is known to be right.
///
/// # Errors
/// What is wrong, and the schedule.
pub fn run_sample(
    stores: &Stores,
    plan: &Plan<'_>,
    start: &Rc<Keys>,
    rng: &mut Rng,
    checked: &mut HashSet<(Keys, String, Facts, Ending)>,
) -> Result<(), String> {
    let facts = stores.provider.borrow().clone();
    stores.redis.restore(start);
    let result = stores.ledger.undo_after(|| {
        let mut run = Run { stores, plan, rng, saved: Rc::clone(start), faults_left: plan.faults.count, steps: vec![] };
        let ending = run.run();
        let schedule = run.steps.join("\n");
        let end = (stores.redis.dump(), stores.ledger.dump(), stores.provider.borrow().clone(), ending);
        if checked.contains(&end) {
            return Ok(());
        }
        stores.run(|ports| (plan.check)(ports, end.3.clone())).map_err(|message| format!("{message}\n{schedule}"))?;
        checked.insert(end);
        Ok(())
    });
    stores.provider.replace(facts);
    result
}

struct Run<'a> {
    stores: &'a Stores,
    plan: &'a Plan<'a>,
    rng: &'a mut Rng,
    saved: Rc<Keys>,
    faults_left: u8,
    steps: Vec<String>,
}

impl Run<'_> {
    fn run(&mut self) -> Ending {
        let count = self.plan.names.len();
        let mut processes: Vec<_> = (0..count).map(|workflow| self.start(workflow)).collect();
        let mut ending = Ending { workflows: vec![(Outcome::Unknown, false); count], lost: false };
        for _ in 0..MAX_CALLS {
            let faults = self.plan.faults;
            let faulty = self.faults_left > 0 && self.rng.usize(..FAULT_RATE) == 0;
            if faults.losses && self.rng.usize(..FAULT_RATE) == 0 && !ending.lost {
                self.saved = Rc::new(self.stores.redis.dump());
                self.steps.push(self.plan.describe(Event::Saved, 0, None));
            }
            let running: Vec<_> = (0..count).filter(|workflow| processes[*workflow].is_some()).collect();
            if faulty && faults.losses && self.rng.bool() {
                self.faults_left -= 1;
                self.stores.redis.restore(&self.saved);
                ending.lost = true;
                self.steps.push(self.plan.describe(Event::Lost, 0, None));
                continue;
            }
            if running.is_empty() {
                return ending;
            }
            let workflow = running[self.rng.usize(..running.len())];
            let Some(process) = &mut processes[workflow] else { continue };
            let pending = process.pending();
            let (id, call) = pending.iter().nth(self.rng.usize(..pending.len())).expect("a call");
            let event = match (faulty, faults.deaths, faults.timeouts) {
                (true, true, _) if !faults.timeouts || self.rng.bool() => {
                    if self.rng.bool() {
                        Event::DeathBefore
                    } else {
                        Event::DeathAfter
                    }
                }
                (true, _, true) => {
                    if self.rng.bool() {
                        Event::TimeoutBefore
                    } else {
                        Event::TimeoutAfter
                    }
                }
                _ => Event::Call,
            };
            self.faults_left -= u8::from(event != Event::Call);
            self.steps.push(self.plan.describe(event, workflow, Some(call)));
            let reply = match event {
                Event::DeathBefore | Event::TimeoutBefore => None,
                _ => Some(self.stores.execute(call)),
            };
            let outcome = match event {
                Event::DeathBefore | Event::DeathAfter => Some(Outcome::Unknown),
                Event::Call => Self::answer(process, *id, call, reply),
                _ => Self::answer(process, *id, call, None),
            };
            let Some(outcome) = outcome else { continue };
            ending.workflows[workflow].0 = outcome;
            // One that died or failed is started again, once, or never.
            let again = outcome == Outcome::Unknown && !ending.workflows[workflow].1 && self.rng.bool();
            ending.workflows[workflow].1 |= again;
            processes[workflow] = if again { self.start(workflow) } else { None };
        }
        panic!("a schedule never ends:\n{}", self.steps.join("\n"));
    }

    fn start(&self, workflow: usize) -> Option<Process<Outcome>> {
        Some(Process::start(self.stores.ledger.dialect(), |ports| (self.plan.start)(workflow, ports)))
    }

    /// Answers a call, with a timeout if there is no reply. Returns the outcome if the workflow has ended.
    fn answer(process: &mut Process<Outcome>, id: usize, call: &Call, reply: Option<super::Reply>) -> Option<Outcome> {
        process.answer(id, reply.unwrap_or_else(|| call.timed_out()));
        process.result
    }
}
