// Polls the gate of one activity: phase, sold-out SKUs and start key.

import * as api from "../shared/api.js";
import * as clock from "../shared/clock.js";
import { backoff, poll, randomUpTo } from "../shared/poll.js";

const MINUTE = 60_000;

/**
 * The delay until the next poll of the gate, in milliseconds; null when the activity has ended. `untilStart` is in
 * milliseconds by the server's clock; `isAllSoldOut` says whether every SKU is sold out.
 *
 * Long before the start, polls only keep the clock correct. The page polls once shortly before the start, and at the
 * start after a random part of the gate's jitter, so that the requests of all pages do not arrive at the same instant.
 */
export function nextPollDelay(gate, untilStart, isAllSoldOut) {
  if (gate.phase === "ended") return null;
  if (gate.phase === "paused") return 3_000 + randomUpTo(2_000);
  if (gate.phase === "open") return isAllSoldOut ? 5_000 + randomUpTo(3_000) : 2_000 + randomUpTo(1_000);
  if (untilStart > 2 * MINUTE) return Math.min(untilStart - MINUTE, 5 * MINUTE) + randomUpTo(30_000);
  if (untilStart > 20_000) return untilStart - 5_000 - randomUpTo(10_000);
  if (untilStart > 0) return untilStart + randomUpTo(gate.jitter_ms ?? 200);
  // The start has passed, but a cached gate still says "scheduled", for at most a second.
  return 300 + randomUpTo(500);
}

/** Starts polling. Calls `onChange(gate)` after every successful poll and `onError(error)` after every failed one. */
export function watchGate(activity, { isAllSoldOut, onChange, onError }) {
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
      return nextPollDelay(data, clock.millisecondsUntil(data.starts_at), isAllSoldOut());
    } catch (error) {
      onError(error);
      if (error.code === "ended") return null;
      failures += 1;
      return Math.max(error.retryAfter ?? 0, backoff(failures));
    }
  });

  /**
   * Resolves to the start key as soon as the gate has one, or to null when the activity has ended.
   * `refusedKey` is a key that the server refused: if the gate still has it, the gate is polled first.
   * `onWait(gate)` is called while there is no key: before the start, while paused, and while load is shed.
   */
  async function startKey(signal, { refusedKey, onWait }) {
    if (refusedKey && refusedKey === current?.start_key) await poller.runNow();
    for (;;) {
      if (signal.aborted) throw signal.reason;
      if (current?.phase === "open" && current.start_key) return current.start_key;
      if (current?.phase === "ended") return null;
      onWait(current);
      await new Promise((resolve, reject) => {
        const wake = () => (waiters.delete(wake), resolve());
        waiters.add(wake);
        signal.addEventListener("abort", () => (waiters.delete(wake), reject(signal.reason)), { once: true });
      });
    }
  }

  return { startKey, refresh: poller.runNow, stop: poller.stop };
}
