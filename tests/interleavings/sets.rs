//! Every interleaving of pairs of workflows, and random schedules of more.

use std::{
    collections::{BTreeMap, HashSet},
    io::Write as _,
    rc::Rc,
    time::{Duration, Instant},
};

use fastrand::Rng;

use crate::{
    sale::{Sale, Start},
    scheduler::{
        explore::explore,
        plan::{Faults, Plan},
        sample::run_sample,
    },
    workflow::{
        Audit, Cancel, CancelUnheard, Checkout, Close, Expire, LONG, LateSweep, Leave, Lower, Offer, Pause, Pay,
        PayTwice, Rebuild, Refund, Replay, Reserve, Restock, SHORT, Sweep, Sync, Trim, Workflow, Write,
    },
};

/// A set of workflows that takes longer is reported at once.
const LONG_SET: Duration = Duration::from_secs(20);

/// Writes to standard error, which the test harness does not capture.
fn show_progress(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Runs every schedule of each set of workflows from a start.
fn explore_all(ledger: &str, start: Start, sets: &[Vec<Workflow>], faults: Faults) {
    let sale = Sale::new(ledger, start);
    let (mut schedules, mut states, mut endings, mut longest) = (0, 0, 0, 0);
    let mut failures: BTreeMap<String, (u64, String)> = BTreeMap::new();
    let began = Instant::now();
    for set in sets {
        let set_began = Instant::now();
        let explored = sale.with_plan(set, faults, |plan| explore(&sale.stores, plan));
        if set_began.elapsed() > LONG_SET {
            show_progress(&format!("{start:?}, {set:?}: {} states, {:?}", explored.states, set_began.elapsed()));
        }
        schedules += explored.schedules;
        states += explored.states;
        endings += explored.endings;
        longest = longest.max(explored.longest);
        for (message, failure) in explored.failures {
            let shortest = failures.entry(message).or_insert_with(|| failure.clone());
            *shortest = failure.min(shortest.clone());
        }
    }
    println!(
        "{ledger}, {start:?}, {} faults: {} sets of workflows, {schedules} schedules, up to {longest} calls of a workflow, \
         {states} states, {endings} endings, {:?}",
        faults.count,
        sets.len(),
        began.elapsed()
    );
    let failures: Vec<_> = failures.iter().map(|(message, (_, schedule))| format!("{message}\n{schedule}\n")).collect();
    assert!(failures.is_empty(), "{ledger}, {start:?}\n{}", failures.join("\n"));
}

/// Each workflow alone, and each two.
fn pairs_of(workflows: &[Workflow]) -> Vec<Vec<Workflow>> {
    let pair = |index: usize| workflows[index..].iter().map(move |second| vec![workflows[index], *second]);
    let alone = workflows.iter().map(|workflow| vec![*workflow]);
    alone.chain((0..workflows.len()).flat_map(pair)).collect()
}

/// A workflow dies and may be started again, or one of its calls times out.
const ONE_FAULT: Faults = Faults { count: 1, deaths: true, timeouts: true, losses: false };

#[test]
fn every_interleaving_of_two_workflows_on_a_pending_order_keeps_the_invariants() {
    explore_all("sqlite", Start::Pending, &pairs_of(&SHORT), ONE_FAULT);
}

#[test]
fn every_interleaving_of_two_workflows_on_an_expired_order_keeps_the_invariants() {
    explore_all("sqlite", Start::Expired, &pairs_of(&SHORT), ONE_FAULT);
}

#[test]
fn every_interleaving_of_two_workflows_on_a_paid_order_keeps_the_invariants() {
    explore_all("sqlite", Start::Paid, &pairs_of(&SHORT), ONE_FAULT);
}

/// In one sweep: writing, syncing, closing a session, expiring, applying a callback, sending a refund, erasing.
#[test]
fn a_sweep_that_dies_at_any_call_is_completed_by_the_next_sweeps() {
    explore_all("sqlite", Start::Backlog, &[vec![LateSweep]], ONE_FAULT);
    let one_death = Faults { count: 1, deaths: true, ..Faults::default() };
    explore_all("postgres", Start::Backlog, &[vec![LateSweep]], one_death);
}

#[test]
fn a_dead_letter_that_is_requeued_while_its_order_fails_is_written_or_waits_again() {
    let pairs = [Replay, Write, Restock, Cancel, Expire, Lower].map(|other| vec![Replay, other]);
    explore_all("sqlite", Start::Refused, &[&[vec![Replay]], &pairs[..]].concat(), ONE_FAULT);
    let frees_unit = [Restock, Cancel].map(|other| vec![Replay, Write, other]);
    for ledger in ["sqlite", "postgres"] {
        explore_all(ledger, Start::Refused, &frees_unit, Faults::default());
    }
    let long = [Sweep, LateSweep, Rebuild].map(|long| vec![long, Replay]);
    explore_all("sqlite", Start::Refused, &long, Faults::default());
}

#[test]
fn an_order_whose_message_vanishes_at_any_call_is_written_or_becomes_a_dead_letter() {
    let pairs = [Sweep, Write, Reserve].map(|other| vec![Trim, other]);
    explore_all("sqlite", Start::Pending, &pairs, ONE_FAULT);
    let pairs = [Write, Replay].map(|other| vec![Trim, other]);
    explore_all("sqlite", Start::Refused, &pairs, ONE_FAULT);
    for ledger in ["sqlite", "postgres"] {
        explore_all(ledger, Start::Pending, &[vec![Trim, Sweep, Write], vec![Trim, Rebuild]], Faults::default());
    }
}

#[test]
fn every_interleaving_of_two_workflows_on_postgresql_keeps_the_invariants() {
    let workflows = [Reserve, Write, Pay, PayTwice, Cancel, Expire, Refund, Restock, Sync];
    explore_all("postgres", Start::Pending, &pairs_of(&workflows), Faults::default());
}

/// What happens to a sale with a line.
const OF_LINE: [Workflow; 11] = [Reserve, Leave, Offer, Write, Cancel, Expire, Pay, Restock, Pause, Close, Sync];

#[test]
fn every_interleaving_of_two_workflows_on_a_line_passes_nobody_over() {
    explore_all("sqlite", Start::Line, &pairs_of(&OF_LINE), ONE_FAULT);
    explore_all("postgres", Start::Line, &pairs_of(&[Reserve, Leave, Write, Cancel]), Faults::default());
}

#[test]
fn a_line_survives_sweeps_rebuilds_and_what_redis_forgets() {
    let others = [Reserve, Leave, Write, Cancel];
    let pairs: Vec<_> = [Sweep, Rebuild].iter().flat_map(|long| others.map(|other| vec![*long, other])).collect();
    explore_all("sqlite", Start::Line, &pairs, Faults::default());
    explore_all("sqlite", Start::Line, &pairs_of(&[Reserve, Leave, Write, Cancel]), LOST_SECOND);
}

#[test]
fn a_transition_that_redis_never_hears_of_is_found_in_its_shortest_schedule() {
    let sale = Sale::new("sqlite", Start::Pending);
    let explored = sale.with_plan(&[CancelUnheard, Write], ONE_FAULT, |plan| explore(&sale.stores, plan));
    let shortest = explored.failures.values().min().map(|(_, schedule)| schedule.lines().count());
    assert_eq!(shortest, Some(6), "{:?}", explored.failures);
}

/// Redis goes back to an earlier state, at the latest when the workflows have ended.
const LOST_SECOND: Faults = Faults { count: 1, deaths: false, timeouts: false, losses: true };

#[test]
fn sweeps_repeat_what_a_redis_that_lost_its_last_second_forgot() {
    for start in Start::ALL {
        explore_all("sqlite", start, &pairs_of(&SHORT), LOST_SECOND);
    }
}

/// Each long workflow with each short one on the order. An operator's change beside a rebuild has too many states: these
/// run in random orders.
fn long_pairs() -> Vec<Vec<Workflow>> {
    let others = [Reserve, Write, Pay, PayTwice, Checkout, Cancel, Expire, Refund, Sync];
    let pairs = LONG.iter().flat_map(|long| others.iter().map(|other| vec![*long, *other]));
    pairs.chain([Restock, Lower, Pause, Sweep, Audit].map(|other| vec![Sweep, other])).collect()
}

#[test]
fn every_interleaving_of_a_workflow_with_a_rebuild_a_sweep_or_an_audit_keeps_the_invariants() {
    for start in Start::ALL {
        explore_all("sqlite", start, &long_pairs(), Faults::default());
    }
}

#[test]
#[ignore = "minutes: --long"]
fn every_interleaving_of_a_workflow_on_a_line_with_a_sweep_or_a_rebuild_passes_nobody_over() {
    let pairs = |long: Workflow| OF_LINE.map(|other| vec![long, other]);
    explore_all("sqlite", Start::Line, &[Sweep, LateSweep, Rebuild].map(pairs).concat(), Faults::default());
}

#[test]
#[ignore = "millions of states: --long"]
fn a_fault_during_a_rebuild_a_sweep_or_an_audit_keeps_the_invariants() {
    for start in Start::ALL {
        explore_all("sqlite", start, &long_pairs(), ONE_FAULT);
    }
}

/// Random schedules of the same workflows. They often end in the same state, which is checked once.
const SCHEDULES_PER_SET: u64 = 20;

/// After this many random schedules, the test prints how far it is.
const PROGRESS_INTERVAL: u64 = 50_000;

/// Runs `count` random schedules of two to four workflows, of which one is long, with up to two faults.
fn sample(ledger: &str, count: u64) {
    let one_seed = std::env::var("STAMPEDE_SEED").ok().map(|seed| seed.parse().expect("STAMPEDE_SEED is a number"));
    let first_seed = one_seed.unwrap_or_else(|| fastrand::u64(..1 << 48));
    let count = if one_seed.is_some() { 1 } else { count };
    println!("{ledger}: {count} random schedules, from STAMPEDE_SEED={first_seed}");
    let began = Instant::now();
    let sales = Start::ALL.map(|start| {
        let sale = Sale::new(ledger, start);
        let keys = Rc::new(sale.stores.redis.dump());
        (sale, keys)
    });
    let all = [&SHORT[..], &LONG[..]].concat();
    let (mut set_number, mut checked) = (0, HashSet::new());
    for seed in first_seed..first_seed + count {
        // Seeds that share a set follow each other.
        if set_number != seed / SCHEDULES_PER_SET {
            (set_number, checked) = (seed / SCHEDULES_PER_SET, HashSet::new());
        }
        let mut rng = Rng::with_seed(set_number);
        let (sale, keys) = &sales[rng.usize(..sales.len())];
        let mut set = vec![LONG[rng.usize(..LONG.len())]];
        set.extend((0..rng.usize(1..=3)).map(|_| all[rng.usize(..all.len())]));
        let mut rng = Rng::with_seed(seed);
        let faults = Faults { count: rng.u8(..3), ..ONE_FAULT };
        let run = |plan: &Plan<'_>| run_sample(&sale.stores, plan, keys, &mut rng, &mut checked);
        if let Err(failure) = sale.with_plan(&set, faults, run) {
            panic!("{ledger}: STAMPEDE_SEED={seed} repeats this schedule of {set:?}, {:?}: {failure}", sale.start);
        }
        let run = seed - first_seed + 1;
        if run.is_multiple_of(PROGRESS_INTERVAL) {
            show_progress(&format!("{ledger}: {run} of {count} random schedules, {:?}", began.elapsed()));
        }
    }
    println!("{ledger}: {count} random schedules, {:?}", began.elapsed());
}

#[test]
fn random_schedules_with_rebuilds_sweeps_and_audits_keep_the_invariants() {
    sample("sqlite", 19_800);
}

/// A schedule takes much longer on PostgreSQL.
#[test]
fn random_schedules_on_postgresql_keep_the_invariants() {
    sample("postgres", 200);
}

#[test]
#[ignore = "a million schedules: --long"]
fn a_million_random_schedules_keep_the_invariants() {
    sample("sqlite", 1_000_000);
}
