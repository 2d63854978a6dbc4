// The current figures of a sale: four in large type, and the rates of the last second.

import { byId, el, setText, setVisible } from "../../shared/dom.js";
import { count } from "../../shared/format.js";
import { revenueText, soldText } from "../sale-states.js";
import { t } from "../words.js";
import { formatRate, formatUnits } from "./figures.js";

/** `[testid, text of a sample and the statistics]`: what is seen first. A rate with an empty text is hidden. */
const TILES = [
  ["sold", ({ sold }, { total }) => soldText({ sold, total })],
  ["held", ({ held }) => formatUnits(held)],
  ["left", ({ left }) => formatUnits(left)],
  ["revenue", (_, { revenue }) => revenueText(revenue) || "–"],
];

const RATES = [
  ["reservations-per-second", ({ reserved }) => formatRate(reserved)],
  ["written-per-second", ({ written }) => formatRate(written)],
  ["paid-per-second", ({ paid }) => formatRate(paid)],
  ["refusals-per-second", ({ refused }) => formatRate(refused && total(refused))],
  ["queue", ({ queue }) => formatUnits(queue)],
  ["offers", (_, { offers }) => (!offers ? "" : offers.made ? t("offers.paid", { made: count(offers.made), paid: count(offers.paid) }) : "–")],
];

/** Fills `#tiles` and `#rates`. `update(sample, stats)` shows the latest sample of the history. */
export function makeTiles() {
  const make = ([testid, toText]) => ({ toText, name: t(`tile.${testid}`), value: el("b", { testid }, "–") });
  const [tiles, rates] = [TILES.map(make), RATES.map(make)];
  byId("tiles").replaceChildren(...tiles.map(({ name, value }) => el("div", { class: "card tile" }, el("span", {}, name), value)));
  byId("rates").replaceChildren(...rates.flatMap(({ name, value }) => [el("dt", {}, name), el("dd", {}, value)]));
  const update = (...figures) => {
    for (const { value, toText } of [...tiles, ...rates]) setText(value, toText(...figures));
    for (const { value } of rates) for (const node of [value.parentNode, value.parentNode.previousSibling]) setVisible(node, value.textContent !== "");
  };
  return { update };
}

const total = (rates) => Object.values(rates).reduce((sum, rate) => sum + rate, 0);
