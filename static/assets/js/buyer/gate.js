// Watches the gate of one sale: when it opens, what is sold out, and the start key.

import * as api from "../shared/api.js";
import * as clock from "../shared/clock.js";
import { backoff, poll, randomUpTo } from "../shared/poll.js";

const MINUTE = 60_000;

/**
 * How long to wait before the next look at the gate, in milliseconds; null when there is nothing
 * more to see. `left` is the time until the start by the server's clock, `soldOut` whether nothing
 * is left of anything.
 *
 * Far from the start the page only keeps its clock right. It looks once shortly before, and at the
 * start after a jitter that the server chose, so that a crowd does not come in the same instant.
 */
export function nextPollDelay(gate, untilStart, isAllSoldOut) {
  if (gate.phase === "ended") return null;
  if (gate.phase === "paused") return 3_000 + randomUpTo(2_000);
  if (gate.phase === "open") return isAllSoldOut ? 5_000 + randomUpTo(3_000) : 2_000 + randomUpTo(1_000);
  if (untilStart > 2 * MINUTE) return Math.min(untilStart - MINUTE, 5 * MINUTE) + randomUpTo(30_000);
  if (untilStart > 20_000) return untilStart - 5_000 - randomUpTo(10_000);
  if (untilStart > 0) return untilStart + randomUpTo(gate.jitter_ms ?? 200);
  // Past the start, but a cache still says "scheduled", for a second at most.
  return 300 + randomUpTo(500);
}

/** Starts to watch; `onChange(gate)` is called for every look that brought something. */
export function watchGate(activity, { skus, onChange, onError }) {
  let current = null;
  let failures = 0;
  const waiters = new Set();

  const poller = poll(async () => {
    try {
      const { data, sentAt, receivedAt } = await api.gate(activity);
      clock.observe(data.server_time, sentAt, receivedAt);
      current = data;
      failures = 0;
      onChange(data);
      for (const wake of waiters) wake();
      const isAllSoldOut = skus.every((sku) => data.sold_out.includes(sku));
      return nextPollDelay(data, clock.millisecondsUntil(data.starts_at), isAllSoldOut);
    } catch (error) {
      onError(error);
      if (error.code === "ended") return null;
      failures += 1;
      return Math.max(error.retryAfter ?? 0, backoff(failures));
    }
  });

  /**
   * Resolves to the start key as soon as the gate carries one, or to null when the sale is over.
   * `stale` is a key that the server refused; `onWait(gate)` hears that there is none yet: before
   * the start, while the sale is paused, and while load is shed.
   */
  async function startKey(signal, { refusedKey, onWait }) {
    if (refusedKey && refusedKey === current?.start_key) await poller.runNow();
    for (;;) {
      signal?.throwIfAborted();
      if (current?.phase === "open" && current.start_key) return current.start_key;
      if (current?.phase === "ended") return null;
      onWait(current);
      await new Promise((resolve, reject) => {
        const wake = () => (waiters.delete(wake), resolve());
        waiters.add(wake);
        signal?.addEventListener("abort", () => (waiters.delete(wake), reject(signal.reason)), { once: true });
      });
    }
  }

  return { startKey, refresh: poller.runNow, stop: poller.stop };
}
