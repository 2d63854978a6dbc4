// The statistics of a sale: what sweeps have recorded, then the figures and the rates of the counters since the page was opened.

import { sumOf } from "../sale-states.js";

/** How long samples of this page are kept, in seconds. */
const WINDOW = 3_600;
/** After a longer pause, in seconds, no rate is known, and lines are interrupted. */
const MAX_PAUSE = 5;

/** The statuses that an order gets with its payment, or later. */
const PAID = ["paid", "refunding", "refunded"];

/**
 * Makes a history that begins with `recorded`, rows `{time, sku, left, held, sold}` of sweeps, oldest first. `add(stats)` adds the statistics that the server has just answered, and returns the samples,
 * oldest first.
 *
 * A sample has `at` (server time in seconds); `left`, `held` and `sold`, the units of all SKUs; `queue`; and per second
 * `reserved`, `written`, `paid` (orders) and `refused` (by code). `left` is Infinity where a SKU is unlimited. Null is
 * unknown: the stock of a SKU that is not loaded, a rate without an earlier sample, everything during a pause.
 */
export function createHistory(recorded = []) {
  const earlier = sumRows(recorded);
  const samples = [];
  let previous = null;

  function add(stats) {
    const current = { at: Date.parse(stats.server_time) / 1_000, counters: countersOf(stats) };
    // Another Redis, whose clock is behind.
    if (previous && current.at <= previous.at) {
      samples.length = 0;
      previous = null;
    }
    const seconds = previous ? current.at - previous.at : Infinity;
    if (previous && seconds > MAX_PAUSE) samples.push({ ...NOTHING, at: previous.at + seconds / 2 });
    const known = seconds <= MAX_PAUSE ? previous : null;
    samples.push({ at: current.at, ...figuresOf(stats), ...ratesBetween(known, current, seconds) });
    while (samples[0].at < current.at - WINDOW) samples.shift();
    previous = current;
    return [...earlier.filter(({ at }) => at < samples[0].at), ...samples];
  }

  return { add };
}

const NOTHING = {
  left: null, held: null, sold: null, queue: null, reserved: null, written: null, paid: null, refused: null,
};

function figuresOf({ skus, queue }) {
  const { left, held, sold } = sumOf(skus);
  return { left: left !== Infinity && skus.some((sku) => sku.left === null) ? null : left, held, sold, queue };
}

/** A sample for each time of the rows: a SKU without a row at a time has its last figures. */
function sumRows(rows) {
  const [latest, samples] = [new Map(), new Map()];
  for (const { time, sku, ...figures } of rows) {
    latest.set(sku, { total: figures.left, ...figures });
    const { left, held, sold } = sumOf([...latest.values()]);
    samples.set(time, { ...NOTHING, at: Date.parse(time) / 1_000, left, held, sold });
  }
  return [...samples.values()];
}

/** The counters only grow, until a rebuild of Redis begins those in Redis anew. */
function countersOf({ enqueued, written, orders, refusals }) {
  const paid = PAID.reduce((total, status) => total + (orders[status] ?? 0), 0);
  return { reserved: enqueued, written, paid, refused: refusals };
}

function ratesBetween(previous, { counters }, seconds) {
  if (!previous) return { reserved: null, written: null, paid: null, refused: null };
  const rate = (before, now) => (now < before ? null : (now - before) / seconds);
  const { refused: refusedBefore, ...before } = previous.counters;
  const rates = Object.entries(before).map(([name, value]) => [name, rate(value, counters[name])]);
  const refused = Object.entries(counters.refused).map(([code, value]) => [code, rate(refusedBefore[code] ?? 0, value)]);
  return { ...Object.fromEntries(rates), refused: Object.fromEntries(refused) };
}
