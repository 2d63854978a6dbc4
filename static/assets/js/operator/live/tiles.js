// The current figures of a sale: four in large type, and the rates of the last second.

import { byId, el, setText } from "../../shared/dom.js";
import { count } from "../../shared/format.js";
import { revenueText, soldText } from "../sale-states.js";
import { t } from "../words.js";
import { formatRate, formatUnits } from "./figures.js";

/** `[testid, text of a sample and the statistics]`: what is seen first. */
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
  ["offers", (_, { offers: { made, paid } }) => (made ? t("offers.paid", { made: count(made), paid: count(paid) }) : "–")],
];

/** Fills `#tiles` and `#rates`. `update(sample, stats)` shows the latest sample of the history. */
export function makeTiles() {
  const make = ([testid, toText]) => ({ testid, toText, value: el("b", { testid }, "–") });
  const [tiles, rates] = [TILES.map(make), RATES.map(make)];
  byId("tiles").replaceChildren(...tiles.map(({ testid, value }) => el("div", { class: "card tile" }, el("span", {}, t(`tile.${testid}`)), value)));
  byId("rates").replaceChildren(...rates.flatMap(({ testid, value }) => [el("dt", {}, t(`tile.${testid}`)), el("dd", {}, value)]));
  return { update: (...figures) => [...tiles, ...rates].forEach(({ value, toText }) => setText(value, toText(...figures))) };
}

const total = (rates) => Object.values(rates).reduce((sum, rate) => sum + rate, 0);
