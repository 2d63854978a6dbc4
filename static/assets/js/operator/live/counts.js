// A list of counts by name, such as orders by status.

import { byId, el } from "../../shared/dom.js";
import { count } from "../../shared/format.js";

/** Shows the counts that are not zero, if they have changed. */
export function showCounts(id, counts = {}) {
  const shown = Object.entries(counts).filter(([, value]) => value);
  const entries = shown.length ? shown : [["none", 0]];
  const text = JSON.stringify(entries);
  if (byId(id).dataset.shown === text) return;
  byId(id).dataset.shown = text;
  byId(id).replaceChildren(...entries.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, count(value))]));
}
