// Polls the gate of one activity: phase, sold-out SKUs and start key.

import { Aborted, codeOf, retryAfterOf } from "./errors.js";
import { backoff, isHidden, poll, randomUpTo } from "./timing.js";

/** @typedef {import("../types/api.js").components["schemas"]["GateDocument"]} Gate */

const MINUTE = 60_000;

/**
 * The delay until the next poll of the gate, in milliseconds; null when the activity has ended. `untilStart` is in
 * milliseconds by the server's clock; `isAllSoldOut` says whether every SKU is sold out.
 *
 * Long before the start, polls only keep the clock correct. The page polls once shortly before the start, and at the
 * start after a random part of the gate's jitter, so that the requests of all pages do not arrive at the same instant.
 * @param {Gate} gate
 * @param {number} untilStart
 * @param {boolean} isAllSoldOut
 */
function nextPollDelay(gate, untilStart, isAllSoldOut) {
  if (gate.phase === "ended") return null;
  if (gate.phase === "paused") return 3_000 + randomUpTo(2_000);
  if (gate.phase === "open") return isAllSoldOut ? 5_000 + randomUpTo(3_000) : 2_000 + randomUpTo(1_000);
  if (untilStart > 2 * MINUTE) return Math.min(untilStart - MINUTE, 5 * MINUTE) + randomUpTo(30_000);
  if (untilStart > 20_000) return untilStart - 5_000 - randomUpTo(10_000);
  if (untilStart > 0) return untilStart + randomUpTo(gate.jitter_ms ?? 200);
  // The start has passed, but a cached gate still says "scheduled", for at most a second.
  return 300 + randomUpTo(500);
}

/**
 * @typedef {object} WatchOptions
 * @property {(gate: Gate) => void} [onChange] Called after every successful poll.
 * @property {(error: unknown) => void} [onError] Called after every failed poll.
 * @property {() => boolean} [isAllSoldOut] Whether every SKU is sold out: the gate is then polled less often.
 * @property {() => boolean} [isPaused] Whether polling rests, except for an attempt; by default on a hidden page.
 */

/**
 * Starts polling the gate.
 * @param {{ gate: (activity: string) => Promise<Gate>, clock: ReturnType<typeof import("./clock.js").createClock> }} client
 * @param {string} activity
 * @param {WatchOptions} options
 */
export function watchGate(client, activity, options) {
  const { onChange = () => {}, onError = () => {}, isAllSoldOut = () => false, isPaused = isHidden } = options;
  /** @type {Gate | null} */
  let current = null;
  let hasEnded = false;
  let failures = 0;
  /** @type {Set<() => void>} */
  const waiters = new Set();
  const wakeAll = () => waiters.forEach((wake) => wake());

  const poller = poll(async () => {
    try {
      const gate = await client.gate(activity);
      current = gate;
      hasEnded = gate.phase === "ended";
      failures = 0;
      onChange(gate);
      wakeAll();
      return nextPollDelay(gate, client.clock.millisecondsUntil(gate.starts_at), isAllSoldOut());
    } catch (error) {
      onError(error);
      if (codeOf(error) === "ended") {
        hasEnded = true;
        wakeAll();
        return null;
      }
      failures += 1;
      return Math.max(retryAfterOf(error) ?? 0, backoff(failures));
    }
  }, { isPaused: () => waiters.size === 0 && isPaused() });

  /**
   * Resolves to the start key as soon as the gate has one, or to null when the activity has ended.
   * `refusedKey` is a key that the server refused: if the gate still has it, the gate is polled first.
   * `onWait(gate)` is called while there is no key: before the start, while paused, and while load is shed.
   * @param {{ signal?: AbortSignal, refusedKey?: string | null, onWait?: (gate: Gate | null) => void }} [options]
   */
  async function startKey({ signal, refusedKey = null, onWait = () => {} } = {}) {
    if (refusedKey && refusedKey === current?.start_key) await poller.runNow();
    for (;;) {
      if (signal?.aborted) throw new Aborted();
      if (hasEnded) return null;
      if (current?.phase === "open" && current.start_key) return current.start_key;
      onWait(current);
      await new Promise((resolve, reject) => {
        const settle = (/** @type {() => void} */ finish) => {
          waiters.delete(wake);
          signal?.removeEventListener("abort", abort);
          finish();
        };
        const wake = () => settle(() => resolve(undefined));
        const abort = () => settle(() => reject(new Aborted()));
        waiters.add(wake);
        poller.wake();
        signal?.addEventListener("abort", abort);
      });
    }
  }

  return {
    startKey,
    /** The gate as polled last, or null. */
    current: () => current,
    /** Polls at once. */
    refresh: poller.runNow,
    stop: poller.stop,
  };
}
