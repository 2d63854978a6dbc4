// The current figures of a sale.

import { byId, el, setText } from "../../shared/dom.js";
import { count } from "../../shared/format.js";
import { sparkline } from "../sparkline.js";

/** Fills the tiles anew. `update(stats)` shows the statistics. */
export function makeTiles() {
  const rate = sparkline("Reservations per second");
  const queue = sparkline("Orders in the queue");
  const makeTile = (label, line, testid) => {
    const value = el("b", { testid }, "–");
    return { value, node: el("div", { class: "card tile" }, el("span", {}, label), value, line?.node) };
  };
  const [left, held, sold] = [makeTile("Left"), makeTile("Held"), makeTile("Sold")];
  const perSecond = makeTile("Reservations per second", rate, "reservations-per-second");
  const length = makeTile("Queue", queue);
  const drain = makeTile("Orders written per second");
  let previous = null;
  byId("tiles").replaceChildren(...[left, held, sold, perSecond, length, drain].map(({ node }) => node));

  function update({ skus, enqueued, queue: queued, drain_rate: drainRate }) {
    const sum = (name) => skus.reduce((total, sku) => total + Math.max(0, sku[name] ?? 0), 0);
    setText(left.value, skus.some((sku) => sku.total < 0) ? "∞" : count(sum("left")));
    setText(held.value, count(sum("held")));
    setText(sold.value, count(sum("sold")));
    setText(length.value, count(queued));
    queue.push(queued);
    setText(drain.value, count(drainRate));
    const current = { enqueued, at: performance.now() };
    if (previous) {
      // A rebuild of Redis begins the counter anew.
      const reserved = Math.max(0, ((current.enqueued - previous.enqueued) * 1000) / (current.at - previous.at));
      setText(perSecond.value, count(Math.round(reserved)));
      rate.push(reserved);
    }
    previous = current;
  }

  return { update };
}
