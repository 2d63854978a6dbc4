//! The line of the in-memory app.

use std::time::{Duration, Instant};

use super::{FakeActivity, Fault, Order, Reply};

impl FakeActivity {
    pub(super) fn close(&mut self, fault: Fault) -> Reply {
        if fault != Fault::NeverEndsLine {
            for order in self.orders.values_mut().filter(|order| order.status == "waiting") {
                (order.status, order.reason) = ("expired", "sale_ended");
            }
        }
        Some((200, self.spec.clone()))
    }

    /// The most who may wait for a SKU; 0 without a line.
    pub(super) fn line_units(&self) -> usize {
        self.spec["line"]["max_units"].as_u64().unwrap_or_default() as usize
    }

    /// The numbers of the orders that wait for a SKU, in their order.
    pub(super) fn waiting<'a>(&'a self, sku: &'a str) -> impl DoubleEndedIterator<Item = &'a String> {
        let waiting = self.orders.iter().filter(move |(_, order)| order.sku == sku && order.status == "waiting");
        waiting.map(|(order_no, _)| order_no)
    }

    /// Offers the units left of a SKU to those who wait for it.
    pub(super) fn offer(&mut self, fault: Fault, sku: &str) {
        while self.left[sku] > 0 {
            let next =
                if fault == Fault::PassesOver { self.waiting(sku).next_back() } else { self.waiting(sku).next() };
            let Some(order_no) = next.cloned() else { return };
            *self.left.get_mut(sku).unwrap() -= 1;
            let order = self.orders.get_mut(&order_no).unwrap();
            let now = Instant::now();
            (order.status, order.created_at, order.offered_at) = ("queued", now, Some(now));
        }
    }

    /// Whether a reservation of the SKU joins the line instead of getting units at once.
    pub(super) fn joins_line(&self, fault: Fault, sku: &str) -> bool {
        let is_waited_for = self.waiting(sku).next().is_some() && fault != Fault::ServesRobots;
        self.line_units() > 0 && (self.left[sku] == 0 || is_waited_for)
    }

    /// Adds an entry of a user with a ticket for one unit of a SKU. Returns its number, or the code of the refusal.
    pub(super) fn join(
        &mut self,
        activity: &str,
        (user, ticket, sku, quantity): (&str, &str, &str, i64),
    ) -> Result<String, &'static str> {
        if self.waiting(sku).any(|order_no| self.orders[order_no].user == user) {
            return Err("limit_reached");
        }
        if quantity > 1 || self.waiting(sku).count() >= self.line_units() {
            return Err("sold_out");
        }
        Ok(self.add_order(activity, (user, ticket, sku, 1), "waiting"))
    }
}

impl Order {
    /// Whether a ledger that is behind has the entry, but not its offer.
    pub(super) fn is_offer_hidden(&self, order_no: &str) -> bool {
        let is_new = self.offered_at.is_some_and(|at| at.elapsed() < Duration::from_millis(1_500));
        is_new && order_no.ends_with(['0', '3', '6', '9'])
    }
}
