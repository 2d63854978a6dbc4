// Watches the gate of one sale: when it opens, what is sold out, and the start key.

import * as api from "../shared/api.js";
import * as clock from "../shared/clock.js";
import { backOff, repeat, upTo } from "../shared/poll.js";

const MINUTE = 60_000;

/**
 * How long to wait before the next look at the gate, in milliseconds; null when there is nothing
 * more to see. `left` is the time until the start by the server's clock, `soldOut` whether nothing
 * is left of anything.
 *
 * Far from the start the page only keeps its clock right. It looks once shortly before, and at the
 * start after a jitter that the server chose, so that a crowd does not come in the same instant.
 */
export function nextLook(gate, left, soldOut) {
  if (gate.phase === "ended") return null;
  if (gate.phase === "paused") return 3_000 + upTo(2_000);
  if (gate.phase === "open") return soldOut ? 5_000 + upTo(3_000) : 2_000 + upTo(1_000);
  if (left > 2 * MINUTE) return Math.min(left - MINUTE, 5 * MINUTE) + upTo(30_000);
  if (left > 20_000) return left - 5_000 - upTo(10_000);
  if (left > 0) return left + upTo(gate.jitter_ms ?? 200);
  // Past the start, but a cache still says "scheduled", for a second at most.
  return 300 + upTo(500);
}

/** Starts to watch; `onChange(gate)` is called for every look that brought something. */
export function watchGate(activity, { skus, onChange, onTrouble }) {
  let current = null;
  let failures = 0;
  const waiting = new Set();

  const watch = repeat(async () => {
    try {
      const { data, sentAt, receivedAt } = await api.gate(activity);
      clock.observe(data.server_time, sentAt, receivedAt);
      current = data;
      failures = 0;
      onChange(data);
      for (const wake of waiting) wake();
      const soldOut = skus.every((sku) => data.sold_out.includes(sku));
      return nextLook(data, clock.until(data.starts_at), soldOut);
    } catch (error) {
      onTrouble(error);
      if (error.code === "ended") return null;
      failures += 1;
      return Math.max(error.retryAfter ?? 0, backOff(failures));
    }
  });

  /**
   * Resolves to the start key as soon as the gate carries one, or to null when the sale is over.
   * `stale` is a key that the server refused; `onWait(gate)` hears that there is none yet: before
   * the start, while the sale is paused, and while load is shed.
   */
  async function key(signal, { stale, onWait }) {
    if (stale && stale === current?.start_key) await watch.now();
    for (;;) {
      signal?.throwIfAborted();
      if (current?.phase === "open" && current.start_key) return current.start_key;
      if (current?.phase === "ended") return null;
      onWait(current);
      await new Promise((resolve, reject) => {
        const wake = () => (waiting.delete(wake), resolve());
        waiting.add(wake);
        signal?.addEventListener("abort", () => (waiting.delete(wake), reject(signal.reason)), { once: true });
      });
    }
  }

  return { key, look: watch.now, stop: watch.stop };
}
