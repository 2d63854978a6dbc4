//! The report of a sweep (G3).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use domain::ids::ActivityId;
use schemars::JsonSchema;
use serde::Serialize;
use stores::ports::StoreError;

use crate::ledger::backlog::Remaining;

/// What a sweep did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "SweepReport")]
pub struct Report {
    /// Orders whose time to pay was over.
    pub expired: usize,
    /// Transitions that Redis had not applied, or had lost.
    pub synced: usize,
    /// Orders written from messages that no writer had read.
    pub written: usize,
    /// Orders written from messages that another writer had read and not acknowledged.
    pub redelivered: usize,
    /// Orders that the ledger refused.
    pub failed: usize,
    /// Orders about which the ledger gave no answer: their messages stay in the stream.
    pub unanswered: usize,
    /// Queued orders that were sent again, since their messages were gone.
    pub resent: usize,
    /// Orders that a later version of the app has queued: they wait for its writers.
    pub newer: usize,
    /// Messages that hold no order: they are dead letters.
    pub unreadable: usize,
    /// Gates stopped because their epoch is older than the ledger's: the sweeper rebuilds them.
    pub fenced: usize,
    /// Activities that Redis has lost orders of: they sell nothing until the sweeper has rebuilt them.
    pub stopped: usize,
    /// Activities that are published or paused, have not ended, and have no complete gate in Redis: they need a
    /// rebuild, or to be published again.
    pub without_gate: usize,
    /// Activities that Redis and the ledger had in different versions, and now have in the same.
    pub warmed_up: usize,
    /// Activities whose epoch in the ledger was behind their gate after a restore from a backup, and is raised now. A
    /// rebuild writes the orders that the ledger lost.
    pub caught_up: usize,
    /// Interrupted rebuilds that were continued.
    pub rebuilds: usize,
    /// Payment callbacks processed.
    pub callbacks: usize,
    /// Payment sessions that the provider was asked about.
    pub asked: usize,
    /// Refunds sent to the provider.
    pub refunds: usize,
    /// Events delivered.
    pub events: usize,
    /// Attempts to deliver an event that failed.
    pub events_failed: usize,
    /// Addresses, events, callbacks, bans, counts of strikes, and orders erased because their retention time was over.
    pub erased: usize,
    /// Activities erased because their retention time was over.
    pub erased_activities: usize,
    /// Whether the time was up, or the lease lost, before the work was done.
    pub more: bool,
    /// Work that remains for the next sweep.
    pub remaining: Remaining,
    /// Milliseconds spent on each step.
    #[schemars(with = "BTreeMap<String, u64>")]
    pub steps_ms: BTreeMap<&'static str, i64>,
    /// Units that were offered to those who wait in a line.
    pub offered: i64,
    /// Activities that a store failed on: their work is left to the next sweep.
    pub stuck: BTreeSet<ActivityId>,
    /// What the log does not have yet.
    #[serde(skip)]
    pub notices: Vec<Notice>,
}

/// Something that an operator should know: a line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// What happened.
    pub event: &'static str,
    /// What it happened to: `activity`, `order_no`, `callback`, `clock` or `variable`, and its id.
    pub subject: (&'static str, String),
    /// Why.
    pub because: String,
}

impl Report {
    /// Adds the time since `started` to a step.
    pub fn add_time(&mut self, step: &'static str, started: Instant) {
        *self.steps_ms.entry(step).or_default() += started.elapsed().as_millis() as i64;
    }

    /// Records that a store failed on an activity.
    pub fn add_failure(&mut self, activity: &ActivityId, error: &StoreError) {
        if self.stuck.insert(activity.clone()) {
            self.add_notice("a sweep left this activity to the next one", "activity", activity, error.to_string());
        }
    }

    /// Records that `event` happened to the activity or order with this id.
    pub fn add_notice(&mut self, event: &'static str, kind: &'static str, id: &impl ToString, because: String) {
        self.notices.push(Notice { event, subject: (kind, id.to_string()), because });
    }
}
