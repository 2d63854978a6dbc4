// The last ten minutes of a sale's statistics: its figures, and the rates of its counters.

/** How long samples are kept, in seconds. */
const WINDOW = 600;
/** After a longer pause, in seconds, no rate is known, and lines are interrupted. */
const MAX_PAUSE = 5;

/** The statuses that an order gets with its payment, or later. */
const PAID = ["paid", "refunding", "refunded"];

/**
 * Makes an empty history. `add(stats)` adds the statistics that the server has just answered, and returns the samples,
 * oldest first.
 *
 * A sample has `at` (server time in seconds); `left`, `held` and `sold`, the units of all SKUs; `queue`; and per second
 * `reserved`, `written`, `paid` (orders) and `refused` (by code). `left` is Infinity where a SKU is unlimited. Null is
 * unknown: the stock of a SKU that is not loaded, a rate without an earlier sample, everything during a pause.
 */
export function createHistory() {
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
    return samples;
  }

  return { add };
}

const NOTHING = {
  left: null, held: null, sold: null, queue: null, reserved: null, written: null, paid: null, refused: null,
};

function figuresOf({ skus, queue }) {
  const sum = (name) => skus.reduce((total, sku) => total + Math.max(0, sku[name]), 0);
  const left = skus.some(({ total }) => total < 0) ? Infinity : skus.some((sku) => sku.left === null) ? null : sum("left");
  return { left, held: sum("held"), sold: sum("sold"), queue };
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
