// What operators call the state of a sale, in words.

import { clock } from "../shared/client.js";
import { count, countdown, duration, money } from "../shared/format.js";
import { t } from "./words.js";

/** The server's time, or this device's until the server has said its own. */
export const now = () => (clock.isSet() ? clock.now() : Date.now());

/**
 * The state of an activity: `draft`, `scheduled`, `open`, `sold_out`, `paused` or `ended`. `figures` has the units of all
 * SKUs, `left` and `sold` of `total`, where they are known.
 */
export function stateOf({ state, starts_at: start, ends_at: end }, figures) {
  if (state === "draft") return "draft";
  if (state === "closed" || Date.parse(end) <= now()) return "ended";
  if (state === "paused") return "paused";
  if (Date.parse(start) > now()) return "scheduled";
  return figures?.total > 0 && figures.left === 0 ? "sold_out" : "open";
}

/** The state in words: `Open, 41 % sold`. */
export function stateText(activity, figures) {
  const name = stateOf(activity, figures);
  if (name === "scheduled") {
    const seconds = Math.ceil((Date.parse(activity.starts_at) - now()) / 60_000) * 60;
    return t("state.scheduled", { time: duration(seconds) });
  }
  if (name === "sold_out" && figures.sold < figures.total) return t("state.all_held", { held: count(figures.total - figures.sold) });
  const share = shareSold(figures);
  return name === "open" && share !== null ? t("state.open_sold", { percent: Math.floor(share * 100) }) : t(`state.${name}`);
}

/** The share of the units that are sold, 0 to 1; null if it is unknown, or there is no end of them. */
export const shareSold = (figures) => (figures?.total > 0 ? figures.sold / figures.total : null);

/** What the clock of a sale counts, or an empty text: `Starts in 04:05`. */
export function clockText(activity) {
  const name = stateOf(activity);
  if (name === "draft" || name === "ended") return "";
  const starts = Date.parse(activity.starts_at) - now();
  return starts > 0 ? t("clock.starts", { time: countdown(starts) }) : t("clock.ends", { time: countdown(Date.parse(activity.ends_at) - now()) });
}

/** The units of all SKUs, and the buyers who wait for one; `total` is Infinity if one SKU has no end. */
export function sumOf(skus) {
  const sum = (name) => skus.reduce((total, sku) => total + Math.max(0, sku[name] ?? 0), 0);
  const isEndless = skus.some(({ total }) => total < 0);
  const [left, total] = isEndless ? [Infinity, Infinity] : [sum("left"), sum("total")];
  return { left, held: sum("held"), sold: sum("sold"), total, waiting: sum("waiting") };
}

/** `5 of 12`, or `5` of units without end. */
export const soldText = ({ sold, total }) =>
  total === Infinity ? count(sold) : t("sold_of", { sold: count(sold), total: count(total) });

/** What came in, less what was given back, by currency: `€1,899.00`. */
export const revenueText = (revenue = []) =>
  revenue.map(({ currency, sold, refunded }) => money(sold - refunded, currency)).join(" + ");
