//! The shortest schedule to each failure.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, HashMap},
    rc::Rc,
};

use super::{Search, Step};
use crate::scheduler::plan::Event;

/// A node, and the workflow whose step led to it.
type Reached = (usize, usize);

impl Search<'_> {
    /// For each message, as in [`super::Explored::failures`].
    pub(super) fn shortest_failures(&self, root: usize) -> BTreeMap<String, (u64, String)> {
        // Dijkstra's algorithm over nodes and the workflow that led to them.
        let mut queue = BinaryHeap::from([Reverse((0_u64, root, usize::MAX))]);
        let mut reached: HashMap<Reached, (u64, Option<(Reached, Step)>)> =
            HashMap::from([((root, usize::MAX), (0, None))]);
        while let Some(Reverse((cost, node, last))) = queue.pop() {
            if reached[&(node, last)].0 < cost {
                continue;
            }
            for (step, next) in &self.nodes[node].steps {
                let fault = !matches!(step.0, Event::Call | Event::Saved);
                let cost = cost + 1 + u64::from(fault) * 1_000_000 + u64::from(step.1 != last) * 1_000;
                let key = (*next, step.1);
                if reached.get(&key).is_none_or(|known| cost < known.0) {
                    reached.insert(key, (cost, Some(((node, last), *step))));
                    queue.push(Reverse((cost, *next, step.1)));
                }
            }
        }
        let messages: HashMap<usize, &String> = self.failures.iter().map(|(node, message)| (*node, message)).collect();
        let mut shortest: BTreeMap<&String, (u64, Reached)> = BTreeMap::new();
        for (key, (cost, _)) in &reached {
            let Some(message) = messages.get(&key.0) else { continue };
            let known = shortest.entry(message).or_insert((*cost, *key));
            *known = (*known).min((*cost, *key));
        }
        let path = |mut key: Reached| {
            let mut lines = Vec::new();
            while let Some((previous, step)) = reached[&key].1 {
                lines.push(self.describe(step));
                key = previous;
            }
            lines.reverse();
            lines.join("\n")
        };
        shortest.into_iter().map(|(message, (cost, key))| (message.clone(), (cost, path(key)))).collect()
    }

    fn describe(&self, (event, workflow, call): Step) -> String {
        self.plan.describe(event, workflow, self.calls.values.get(call).map(Rc::as_ref))
    }
}
