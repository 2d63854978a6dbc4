// Follows one order, and opens its payment.

import { Aborted, codeOf, isTransient, retryAfterOf } from "./errors.js";
import { backoff, isHidden, poll, randomUpTo, sleep } from "./timing.js";

/**
 * @typedef {import("../types/api.js").components["schemas"]["Order"]} Order
 * @typedef {import("../types/api.js").components["schemas"]["OrderStatus"]} OrderStatus
 * @typedef {import("../types/api.js").components["schemas"]["CheckedOut"]} CheckedOut
 */

/** Statuses after which polling stops. */
const FINAL_STATUSES = ["paid", "failed", "refunded"];

/** Statuses that change soon, without anybody's doing. */
const CHANGING_STATUSES = ["waiting", "queued", "pending_payment"];

/** How long any other status is polled: a late payment may still arrive, or a refund be confirmed. In milliseconds. */
const SETTLING_MS = 5 * 60_000;

/** Milliseconds between two polls, by status, if the response does not say. @type {Partial<Record<OrderStatus, number>>} */
const INTERVALS = { queued: 1_000, pending_payment: 3_000, refunding: 5_000 };

/** How often opening a payment is tried. */
const MAX_CHECKOUTS = 5;

/**
 * @typedef {object} PollOptions
 * @property {() => string | null} [token] The credential: the ticket that made the order, which costs the server less, or
 *   the shop's JWT (the default).
 * @property {(order: Order) => void} [onChange] Called after every successful poll.
 * @property {(error: unknown) => void} [onError] Called after every failed poll. Only a transient error is repeated.
 * @property {(error?: unknown) => void} [onEnd] Called when polling has ended by itself, with the error that ended it.
 * @property {() => boolean} [isPaused] Whether polling rests; by default on a hidden page, unless the order waits in the line: an
 *   offer has to be seen in time.
 * @property {OrderStatus} [left] The status before a cancellation or refund that was answered: the order has left it, although
 *   polls may show it for a moment. They are not reported.
 */

/**
 * Polls an order as `Retry-After` says, until some minutes after nothing happens to it any more.
 * Returns `runNow()`, which polls at once, and `stop()`, after which nothing is called.
 * @param {import("./index.js").Client} client
 * @param {string} orderNo
 * @param {PollOptions} options
 */
export function pollOrder(client, orderNo, { token, onChange = () => {}, onError = () => {}, onEnd = () => {}, isPaused, left }) {
  /** @type {Order | null} */
  let order = null;
  /** @type {string | null} */
  let etag = null;
  let changedAt = client.now();
  let failures = 0;
  let stopped = false;
  let hasWaited = false;
  const isAwaited = () => hasWaited && (order?.status === "waiting" || order?.status === "queued");
  // After a Redis failover, Redis alone may not know an order that the ledger has: only the last look asks both.
  let last = false;
  const poller = poll(async () => {
    try {
      const answer = await client.readOrder(orderNo, { token: token?.(), etag, last });
      if (stopped) return null;
      [failures, last] = [0, false];
      // A 304 has no document.
      const previous = order?.status;
      order = answer.data ?? /** @type {Order} */ (order);
      if (order.status !== previous) changedAt = client.now();
      hasWaited ||= order.status === "waiting";
      etag = answer.etag ?? etag;
      if (order.status === left) return 1_000;
      onChange(order);
      const isSettled = !CHANGING_STATUSES.includes(order.status) && client.now() - changedAt >= SETTLING_MS;
      if (FINAL_STATUSES.includes(order.status) || isSettled) {
        if (!stopped) onEnd();
        return null;
      }
      return (answer.retryAfter ?? INTERVALS[order.status] ?? 15_000) + randomUpTo(200);
    } catch (error) {
      if (stopped) return null;
      const isMissing = codeOf(error) === "not_found";
      if (isMissing && !last) {
        last = true;
        return 0;
      }
      onError(error);
      failures += 1;
      // An order that was seen exists.
      if (isTransient(error) || (isMissing && order)) return Math.max(retryAfterOf(error) ?? 0, backoff(failures));
      if (!stopped) onEnd(error);
      return null;
    }
  }, { isPaused: isPaused ?? (() => isHidden() && !isAwaited()) });
  const stop = () => {
    stopped = true;
    poller.stop();
  };
  return { runNow: poller.runNow, stop };
}

/** @typedef {Omit<PollOptions, "onChange" | "onEnd"> & { signal?: AbortSignal }} WatchOrderOptions */

/**
 * The order, again after each change, until some minutes after nothing can change. Throws what ends it: `Problem`, or
 * `Aborted`. Leaving the loop stops polling.
 * @param {import("./index.js").Client} client
 * @param {string} orderNo
 * @param {WatchOrderOptions} options
 * @returns {AsyncGenerator<Order, void, void>}
 */
export async function* watchOrder(client, orderNo, { signal, ...options }) {
  /** @type {Order | null} */
  let latest = null;
  let shown = null;
  /** @type {{ error?: unknown } | null} */
  let end = null;
  let wake = () => {};
  const onEnd = (/** @type {unknown} */ error) => {
    end = { error };
    wake();
  };
  const abort = () => onEnd(new Aborted());
  const onChange = (/** @type {Order} */ order) => {
    latest = order;
    wake();
  };
  if (signal?.aborted) throw new Aborted();
  signal?.addEventListener("abort", abort);
  const poller = pollOrder(client, orderNo, { ...options, onChange, onEnd });
  try {
    for (;;) {
      if (signal?.aborted) throw new Aborted();
      if (latest !== shown) {
        shown = latest;
        yield /** @type {Order} */ (/** @type {unknown} */ (shown));
      } else if (end) {
        const { error } = /** @type {{ error?: unknown }} */ (end);
        if (error) throw error;
        return;
      } else {
        await new Promise((resolve) => (wake = () => resolve(undefined)));
      }
    }
  } finally {
    poller.stop();
    signal?.removeEventListener("abort", abort);
  }
}

/**
 * @typedef {object} CheckoutOptions
 * @property {object} [address] Where to deliver; a sale whose `checkout` is `form` needs it.
 * @property {string} [language] Of the payment page, such as `en` or `zh-CN`.
 * @property {string | null} [token]
 * @property {AbortSignal} [signal]
 * @property {(error: unknown, until: number) => void} [onWait] Called before another try; `until` is by the client's `now`.
 */

/**
 * Opens the payment. Tries again while the provider is slow: an order has one payment.
 * @param {import("./index.js").Client} client
 * @param {string} orderNo
 * @param {CheckoutOptions} options
 * @returns {Promise<CheckedOut>}
 */
export async function checkout(client, orderNo, { address, language, token, signal, onWait = () => {} }) {
  for (let tries = 1; ; tries += 1) {
    try {
      // The server asks the payment provider up to three times, for 8 s each.
      const options = { token, signal, body: { address, language }, timeout: 30_000 };
      /** @type {import("./http.js").Answer<CheckedOut>} */
      const answer = await client.post(`/api/orders/${encodeURIComponent(orderNo)}/checkout`, options);
      return answer.data;
    } catch (error) {
      if (!isTransient(error) || tries >= MAX_CHECKOUTS) throw error;
      const wait = (retryAfterOf(error) ?? backoff(tries)) + randomUpTo(500);
      onWait(error, client.now() + wait);
      await sleep(wait, signal);
    }
  }
}
