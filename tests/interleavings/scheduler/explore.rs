//! Explores every schedule of some workflows.
//!
//! A search over states: what the stores contain, and which replies each workflow has had. Two schedules that reach the
//! same state have the same continuations, so each state is continued once. A workflow is brought to a state again by
//! repeating its replies; the same replies must lead to the same calls.

mod shortest;

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    rc::Rc,
};

use super::{
    Call, Outcome, Process, Reply,
    plan::{Ending, Event, Plan},
    stores::{Facts, Keys, MAX_CALLS, Stores},
};

/// What an exploration did.
#[derive(Debug, Default)]
pub struct Explored {
    /// The number of schedules: of paths from the start to an end.
    pub schedules: u128,
    /// The number of distinct states.
    pub states: usize,
    /// The number of distinct endings that were checked.
    pub endings: usize,
    /// The most calls of one workflow.
    pub longest: usize,
    /// For each message, the schedule with the fewest faults, then the fewest changes between workflows, then calls;
    /// and a number that sorts schedules so.
    pub failures: BTreeMap<String, (u64, String)>,
}

/// Numbers values.
struct Interner<T> {
    values: Vec<Rc<T>>,
    ids: HashMap<Rc<T>, usize>,
}

impl<T: Eq + Hash> Interner<T> {
    fn new() -> Self {
        Self { values: Vec::new(), ids: HashMap::new() }
    }

    fn id(&mut self, value: T) -> usize {
        if let Some(id) = self.ids.get(&value) {
            return *id;
        }
        let value = Rc::new(value);
        self.values.push(Rc::clone(&value));
        self.ids.insert(value, self.values.len() - 1);
        self.values.len() - 1
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Progress {
    /// Had the replies of this history.
    Running(usize),
    Ended(Outcome),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    redis: usize,
    ledger: usize,
    provider: usize,
    /// The state that Redis goes back to if it loses data.
    saved: usize,
    lost: bool,
    faults_left: u8,
    /// For each workflow, also whether it was started again.
    workflows: Vec<(Progress, bool)>,
}

/// A workflow after some replies.
struct History {
    workflow: usize,
    parent: Option<(usize, usize, Reply)>,
    pending: BTreeMap<usize, Call>,
    outcome: Option<Outcome>,
}

/// A step between states: the event, and the workflow and call that it happens to.
type Step = (Event, usize, usize);

struct Node {
    steps: Vec<(Step, usize)>,
    schedules: u128,
}

/// Explores all schedules of `plan`, from the present state of the stores. Restores that state.
pub fn explore(stores: &Stores, plan: &Plan<'_>) -> Explored {
    let mut search = Search {
        stores,
        plan,
        redis: Interner::new(),
        ledgers: Interner::new(),
        providers: Interner::new(),
        calls: Interner::new(),
        histories: Vec::new(),
        history_ids: HashMap::new(),
        redis_effects: HashMap::new(),
        ledger_effects: HashMap::new(),
        actual_redis: None,
        nodes: Vec::new(),
        node_ids: HashMap::new(),
        endings: HashMap::new(),
        failures: Vec::new(),
        longest: 0,
    };
    let redis = search.redis.id(stores.redis.dump());
    let start = State {
        redis,
        ledger: search.ledgers.id(stores.ledger.dump()),
        provider: search.providers.id(stores.provider.borrow().clone()),
        saved: redis,
        lost: false,
        faults_left: plan.faults.count,
        workflows: (0..plan.names.len()).map(|workflow| (search.start(workflow), false)).collect(),
    };
    let facts = stores.provider.borrow().clone();
    let root = stores.ledger.undo_after(|| search.visit(&start));
    search.stores.redis.restore(&search.redis.values[redis]);
    stores.provider.replace(facts);
    Explored {
        schedules: search.nodes[root].schedules,
        states: search.nodes.len(),
        endings: search.endings.len(),
        longest: search.longest,
        failures: search.shortest_failures(root),
    }
}

struct Search<'a> {
    stores: &'a Stores,
    plan: &'a Plan<'a>,
    redis: Interner<Keys>,
    ledgers: Interner<String>,
    providers: Interner<Facts>,
    calls: Interner<Call>,
    histories: Vec<History>,
    history_ids: HashMap<(usize, usize, Reply), usize>,
    /// Reply and next state of a call in a state of Redis.
    redis_effects: HashMap<(usize, usize), (Reply, usize)>,
    /// Reply and next state of a statement in a state of the ledger.
    ledger_effects: HashMap<(usize, usize), (Reply, usize)>,
    /// What Redis contains now.
    actual_redis: Option<usize>,
    nodes: Vec<Node>,
    node_ids: HashMap<State, usize>,
    endings: HashMap<(usize, usize, usize, Ending), Option<String>>,
    failures: Vec<(usize, String)>,
    longest: usize,
}

impl Search<'_> {
    /// Explores the schedules from a state. The ledger is in this state.
    fn visit(&mut self, state: &State) -> usize {
        if let Some(node) = self.node_ids.get(state) {
            return *node;
        }
        let node = self.nodes.len();
        self.nodes.push(Node { steps: Vec::new(), schedules: 0 });
        self.node_ids.insert(state.clone(), node);
        let mut steps = Vec::new();
        for (workflow, (progress, _)) in state.workflows.iter().enumerate() {
            let Progress::Running(history) = *progress else { continue };
            for (id, call) in self.histories[history].pending.clone() {
                self.visit_call(state, workflow, history, id, &call, &mut steps);
            }
        }
        if self.plan.faults.losses && state.faults_left > 0 {
            if state.redis != state.saved {
                let faults_left = state.faults_left - 1;
                let next = State { redis: state.saved, lost: true, faults_left, ..state.clone() };
                steps.push(((Event::Lost, usize::MAX, 0), self.visit(&next)));
            }
            if state.saved == 0 && state.redis != 0 {
                let next = State { saved: state.redis, ..state.clone() };
                steps.push(((Event::Saved, usize::MAX, 0), self.visit(&next)));
            }
        }
        let mut schedules = steps.iter().map(|(_, next)| self.nodes[*next].schedules).sum();
        let outcome = |(progress, restarted): &(Progress, bool)| match progress {
            Progress::Running(_) => None,
            Progress::Ended(outcome) => Some((*outcome, *restarted)),
        };
        if let Some(workflows) = state.workflows.iter().map(outcome).collect() {
            schedules += 1;
            self.check(node, state, Ending { workflows, lost: state.lost });
        }
        self.nodes[node] = Node { steps, schedules };
        node
    }

    /// Explores what can happen to one call.
    fn visit_call(
        &mut self,
        state: &State,
        workflow: usize,
        history: usize,
        id: usize,
        call: &Call,
        steps: &mut Vec<(Step, usize)>,
    ) {
        let call_id = self.calls.id(call.clone());
        let may_fail = state.faults_left > 0;
        let faulty = State { faults_left: state.faults_left.saturating_sub(1), ..state.clone() };
        let (deaths, timeouts) = (may_fail && self.plan.faults.deaths, may_fail && self.plan.faults.timeouts);
        if deaths {
            self.visit_outcome(&faulty, workflow, None, (Event::DeathBefore, workflow, call_id), steps);
        }
        if timeouts {
            let next = self.answer(history, id, call.timed_out());
            self.visit_outcome(&faulty, workflow, Some(next), (Event::TimeoutBefore, workflow, call_id), steps);
        }
        let mut visit_effect = |search: &mut Self, reply: Reply, after: &dyn Fn(&State) -> State| {
            let next = search.answer(history, id, reply);
            search.visit_outcome(&after(state), workflow, Some(next), (Event::Call, workflow, call_id), steps);
            if deaths {
                let step = (Event::DeathAfter, workflow, call_id);
                search.visit_outcome(&after(&faulty), workflow, None, step, steps);
            }
            if timeouts {
                let next = search.answer(history, id, call.timed_out());
                let step = (Event::TimeoutAfter, workflow, call_id);
                search.visit_outcome(&after(&faulty), workflow, Some(next), step, steps);
            }
        };
        match call {
            Call::Redis(..) => {
                let (reply, redis) = self.execute_redis(state.redis, call_id, call);
                visit_effect(self, reply, &|state| State { redis, ..state.clone() });
            }
            Call::Provider(_) => {
                self.stores.provider.replace((*self.providers.values[state.provider]).clone());
                let reply = self.stores.execute(call);
                let provider = self.providers.id(self.stores.provider.borrow().clone());
                visit_effect(self, reply, &|state| State { provider, ..state.clone() });
            }
            Call::Wait(_) => unreachable!("workflows do not wait"),
            Call::Sql(..) => {
                let stores = self.stores;
                stores.ledger.undo_after(|| {
                    // The statement is executed even if its result is known: the search goes on from there.
                    let reply = stores.execute(call);
                    let (reply, ledger) = match self.ledger_effects.get(&(state.ledger, call_id)) {
                        Some(known) => known.clone(),
                        None => {
                            let effect = (reply, self.ledgers.id(stores.ledger.dump()));
                            self.ledger_effects.insert((state.ledger, call_id), effect.clone());
                            effect
                        }
                    };
                    visit_effect(self, reply, &|state| State { ledger, ..state.clone() });
                });
            }
        }
    }

    /// Explores the state in which a workflow has a new history, or is dead (`None`). One that died or failed may be
    /// started again.
    fn visit_outcome(
        &mut self,
        state: &State,
        workflow: usize,
        history: Option<usize>,
        step: Step,
        steps: &mut Vec<(Step, usize)>,
    ) {
        let progress = match history.map(|history| (history, self.histories[history].outcome)) {
            Some((history, None)) => Progress::Running(history),
            Some((_, Some(outcome))) => Progress::Ended(outcome),
            None => Progress::Ended(Outcome::Unknown),
        };
        let mut next = state.clone();
        next.workflows[workflow].0 = progress;
        steps.push((step, self.visit(&next)));
        if progress == Progress::Ended(Outcome::Unknown) && !next.workflows[workflow].1 {
            next.workflows[workflow] = (self.start(workflow), true);
            steps.push((step, self.visit(&next)));
        }
    }

    fn execute_redis(&mut self, before: usize, call_id: usize, call: &Call) -> (Reply, usize) {
        if let Some(known) = self.redis_effects.get(&(before, call_id)) {
            return known.clone();
        }
        self.restore_redis(before);
        let reply = self.stores.execute(call);
        let after = self.redis.id(self.stores.redis.dump());
        self.actual_redis = Some(after);
        self.redis_effects.insert((before, call_id), (reply.clone(), after));
        (reply, after)
    }

    fn restore_redis(&mut self, redis: usize) {
        if self.actual_redis != Some(redis) {
            self.stores.redis.restore(&self.redis.values[redis]);
            self.actual_redis = Some(redis);
        }
    }

    /// Checks an ending, unless an equal one was checked.
    fn check(&mut self, node: usize, state: &State, ending: Ending) {
        let key = (state.redis, state.ledger, state.provider, ending);
        let failure = match self.endings.get(&key) {
            Some(known) => known.clone(),
            None => {
                self.restore_redis(state.redis);
                self.stores.provider.replace((*self.providers.values[state.provider]).clone());
                let check = || self.stores.run(|ports| (self.plan.check)(ports, key.3.clone()));
                let failure = self.stores.ledger.undo_after(check).err();
                self.actual_redis = None;
                self.endings.insert(key, failure.clone());
                failure
            }
        };
        self.failures.extend(failure.map(|failure| (node, failure)));
    }

    fn start(&mut self, workflow: usize) -> Progress {
        let is_start = |history: &History| history.workflow == workflow && history.parent.is_none();
        if let Some(known) = self.histories.iter().position(is_start) {
            return Progress::Running(known);
        }
        let process = self.spawn(workflow);
        let pending = process.pending();
        assert!(!pending.is_empty(), "{} makes no call", self.plan.names[workflow]);
        self.histories.push(History { workflow, parent: None, pending, outcome: None });
        Progress::Running(self.histories.len() - 1)
    }

    fn spawn(&self, workflow: usize) -> Process<Outcome> {
        Process::start(self.stores.ledger.dialect(), |ports| (self.plan.start)(workflow, ports))
    }

    /// The history that follows when a call is answered.
    fn answer(&mut self, parent: usize, id: usize, reply: Reply) -> usize {
        let key = (parent, id, reply);
        if let Some(known) = self.history_ids.get(&key) {
            return *known;
        }
        let mut replies = vec![(id, key.2.clone())];
        let mut at = parent;
        while let Some((parent, id, reply)) = &self.histories[at].parent {
            replies.push((*id, reply.clone()));
            at = *parent;
        }
        let workflow = self.histories[at].workflow;
        let length = replies.len();
        assert!(length < MAX_CALLS, "{} never ends", self.plan.names[workflow]);
        let mut process = self.spawn(workflow);
        replies.into_iter().rev().for_each(|(id, reply)| process.answer(id, reply));
        self.longest = self.longest.max(length);
        let (pending, outcome) = (process.pending(), process.result);
        self.histories.push(History { workflow, parent: Some(key.clone()), pending, outcome });
        self.history_ids.insert(key, self.histories.len() - 1);
        self.histories.len() - 1
    }
}
