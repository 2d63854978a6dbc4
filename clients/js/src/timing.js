// Waiting and polling, with random delays and backoff.

import { Aborted } from "./errors.js";

/**
 * Resolves after `milliseconds`. Rejects with `Aborted` when `signal` is aborted.
 * @param {number} milliseconds
 * @param {AbortSignal} [signal]
 * @returns {Promise<void>}
 */
export function sleep(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(new Aborted());
    const abort = () => (clearTimeout(timer), reject(new Aborted()));
    const timer = setTimeout(() => (signal?.removeEventListener("abort", abort), resolve()), milliseconds);
    signal?.addEventListener("abort", abort, { once: true });
  });
}

/**
 * As `sleep`, but resolves at once when the browser says that the device is online again.
 * @param {number} milliseconds
 * @param {AbortSignal} [signal]
 * @returns {Promise<void>}
 */
export function sleepUntilOnline(milliseconds, signal) {
  /** @type {() => void} */
  let wake = () => {};
  const online = new Promise((resolve) => (wake = () => resolve(undefined)));
  // Not in Node.
  globalThis.addEventListener?.("online", wake);
  return Promise.race([sleep(milliseconds, signal), online]).finally(() => globalThis.removeEventListener?.("online", wake));
}

/**
 * A random number of milliseconds up to `limit`.
 * @param {number} limit
 */
export const randomUpTo = (limit) => Math.random() * limit;

/**
 * The delay before a retry, in milliseconds: doubles from 0.5 s to at most 15 s. Half of it is random, so that pages
 * that failed at the same time do not retry at the same time.
 * @param {number} failures
 */
export function backoff(failures) {
  const maximum = Math.min(15_000, 500 * 2 ** failures);
  return maximum / 2 + randomUpTo(maximum / 2);
}

/** Whether the page is hidden; never in Node. */
export const isHidden = () => globalThis.document?.hidden ?? false;

/**
 * Calls `step` at once and then repeatedly. `step` resolves to the delay until the next call in milliseconds, or to
 * null to stop. While `isPaused()`, which is on a hidden page, it is not called; it is called when the page is shown.
 * Two calls never run at the same time.
 *
 * Returns `runNow()`, which calls at once or joins the call in progress, `wake()`, which does so if a call was left out, and
 * `stop()`.
 * @param {() => Promise<number | null>} step
 * @param {{ isPaused?: () => boolean }} [options]
 */
export function poll(step, { isPaused = isHidden } = {}) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  /** @type {Promise<void> | null} */
  let running = null;
  let stopped = false;
  let isResting = false;

  /** @returns {Promise<void>} */
  function run() {
    clearTimeout(timer);
    isResting = false;
    if (stopped) return Promise.resolve();
    running ??= Promise.resolve(step()).then((delay) => {
      running = null;
      if (delay === null) return stop();
      timer = setTimeout(() => {
        isResting = isPaused();
        if (!isResting) void run();
      }, delay);
    });
    return running;
  }

  const onShown = () => void (isHidden() || run());
  globalThis.document?.addEventListener("visibilitychange", onShown);

  function stop() {
    globalThis.document?.removeEventListener("visibilitychange", onShown);
    stopped = true;
    clearTimeout(timer);
  }

  void run();
  return { runNow: run, wake: () => void (isResting && run()), stop };
}
