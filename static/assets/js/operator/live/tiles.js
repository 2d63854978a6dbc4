// The current figures of a sale, in large type.

import { byId, el, setText } from "../../shared/dom.js";
import { formatRate, formatUnits } from "./figures.js";

/** Fills the tiles anew. `update(sample)` shows the latest sample of the history. */
export function makeTiles() {
  const tiles = [
    ["Left", "left", ({ left }) => formatUnits(left)],
    ["Held", "held", ({ held }) => formatUnits(held)],
    ["Sold", "sold", ({ sold }) => formatUnits(sold)],
    ["Queue", "queue", ({ queue }) => formatUnits(queue)],
    ["Reserved per second", "reservations-per-second", ({ reserved }) => formatRate(reserved)],
    ["Written per second", "written-per-second", ({ written }) => formatRate(written)],
    ["Paid per second", "paid-per-second", ({ paid }) => formatRate(paid)],
    ["Refused per second", "refusals-per-second", ({ refused }) => formatRate(refused && total(refused))],
  ].map(([label, testid, toText]) => ({ label, toText, value: el("b", { testid }, "–") }));
  byId("tiles").replaceChildren(
    ...tiles.map(({ label, value }) => el("div", { class: "card tile" }, el("span", {}, label), value)),
  );
  return { update: (sample) => tiles.forEach(({ value, toText }) => setText(value, toText(sample))) };
}

const total = (rates) => Object.values(rates).reduce((sum, rate) => sum + rate, 0);
